"""P5 of flows that move over routers, and P6b: rules T1 to T8 of docs/model/flit_transfers.md."""
from libc.string cimport memset

from kernbench_core.model.division cimport quotient
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.flow cimport flow_want
from kernbench_core.model.noc.interface cimport Interface, Interfaces, Segment
from kernbench_core.model.noc.network cimport network_clock, network_next, network_send
from kernbench_core.model.noc.routers cimport WAITS, Packet
from kernbench_core.model.requester cimport flow_over
from kernbench_core.model.share.membership cimport flow_accrue, share_quit
from kernbench_core.types cimport NONE, int64_t


cdef void interface_open(Sim* s, slot_t flow) noexcept nogil:
    """P3: open the state of a flow whose transfer starts."""
    cdef Interface* i = &s.noc.at[flow]
    cdef DmaJob* j = &s.dma_job[s.share.flow[flow].job]
    memset(i, 0, sizeof(Interface))
    i.gives = not j.write or j.peer != NONE


cdef bint comes_before(Sim* s, slot_t one, slot_t other) noexcept nogil:
    """The order of flows in P6b."""
    cdef Flow* a = &s.share.flow[one]
    cdef Flow* b = &s.share.flow[other]
    if a.engine != b.engine:
        return a.engine < b.engine
    if a.job_seq != b.job_seq:
        return a.job_seq < b.job_seq
    return a.channel < b.channel


cdef void interface_join(Sim* s, slot_t flow) noexcept nogil:
    """P4: add a flow whose head latency has ended."""
    cdef Interfaces* x = s.noc
    cdef int32_t k = x.n_active
    while k and comes_before(s, flow, x.active[k - 1]):
        x.active[k] = x.active[k - 1]
        k -= 1
    x.active[k] = flow
    x.n_active += 1


cdef void interface_close(Sim* s, slot_t flow) noexcept nogil:
    """P7: close the state of a flow that has ended."""
    cdef Interfaces* x = s.noc
    cdef int32_t k = 0
    while x.active[k] != flow:
        k += 1
    x.n_active -= 1
    while k < x.n_active:
        x.active[k] = x.active[k + 1]
        k += 1


cdef inline void cap(Flow* f, Spm* p) noexcept nogil:
    """Limit the unspent carry to one row of banks; a host copy has no unspent carry."""
    if not p.nowhere:
        f.carry = min(f.carry, p.row * f.den)


cdef bint want_ejected(Sim* s, Spm* p, slot_t flow, uint64_t* mask) noexcept nogil:
    """T1: request pieces of bytes that are ejected and not yet requested."""
    cdef Flow* f = &s.share.flow[flow]
    cdef Interface* i = &s.noc.at[flow]
    cdef int64_t carry = f.carry, den = f.den
    cdef bint some
    f.carry, f.den = i.ejected - i.requested, 1
    some = flow_want(f, p, s.memory, &s.dma_job[f.job], mask)
    f.carry, f.den = carry, den
    if some:
        i.requested += f.requested
    return some


cdef bint want_in_window(Sim* s, Spm* p, slot_t flow, cycle_t now, uint64_t* mask) noexcept nogil:
    """T2: request pieces within the carry and the window."""
    cdef Flow* f = &s.share.flow[flow]
    cdef Interface* i = &s.noc.at[flow]
    cdef int64_t carry
    cdef bint some
    flow_accrue(f, now + 1 - f.seen)
    f.seen = now + 1
    carry = f.carry
    f.carry = min(carry, (s.noc.window - (i.entered - i.ejected)) * f.den)
    some = flow_want(f, p, s.memory, &s.dma_job[f.job], mask)
    f.carry = carry - f.requested * f.den if some else carry
    cap(f, p)
    return some


cdef bint routed_want(Sim* s, Spm* p, slot_t flow, cycle_t now, uint64_t* mask) noexcept nogil:
    """P5: true if bytes are requested, as in `flow_want`."""
    if s.noc.at[flow].gives:
        return want_ejected(s, p, flow, mask)
    return s.share.flow[flow].member and want_in_window(s, p, flow, now, mask)


cdef bint may_request_both(Sim* s, slot_t flow) noexcept nogil:
    """P5 of a transfer between scratchpads: whether bytes are ejected and not yet requested."""
    return s.noc.at[flow].ejected > s.noc.at[flow].requested


cdef slot_t new_packet(Interfaces* x) noexcept nogil:
    cdef slot_t k = x.free_packet
    x.free_packet = x.net.packet[k].next
    return k


cdef void put(Interfaces* x, Packet* q, Segment* g, cycle_t now) noexcept nogil:
    """Let a packet enter a segment."""
    cdef int32_t k
    q.source, q.target, q.hop, q.queued_at = g.source, g.target, g.hop, now
    for k in range(WAITS):
        q.waits[k] = 0


cdef void pack(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """T5: divide the bytes that entered into packets."""
    cdef Interfaces* x = s.noc
    cdef Interface* i = &x.at[flow]
    cdef Flow* f = &s.share.flow[flow]
    cdef nbytes_t size
    cdef slot_t packet
    cdef Packet* q
    if f.route.segments == 0:
        i.packed = i.ejected = i.entered
        return
    while i.packed < i.entered:
        size = min(x.packet, f.total - i.packed)
        if i.entered - i.packed < size:
            return
        packet = new_packet(x)
        q = &x.net.packet[packet]
        q.tag = (<int64_t>flow << 32) | quotient(i.packed, x.packet)
        q.segment = 0
        q.flits = <int32_t>quotient(size + x.flit - 1, x.flit)
        put(x, q, &x.segment[f.route.segment], now)
        network_send(&x.net, packet)
        i.packed += size


cdef void enter(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """T4 of a flow."""
    cdef Interface* i = &s.noc.at[flow]
    cdef Flow* f = &s.share.flow[flow]
    cdef nbytes_t more, served = f.total - f.left
    if not i.gives:
        i.entered = served
    elif f.member and i.entered < f.total:
        flow_accrue(f, 1)
        f.seen = now + 1
        more = min(min(quotient(f.carry, f.den), s.noc.window - (i.entered - served)), f.total - i.entered)
        i.entered += more
        f.carry -= more * f.den
        cap(f, &s.spm[s.requester[flow].spm])
    pack(s, flow, now)


cdef void find_room(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """T3 and T8: a flow without room for a packet, or without more bytes to enter, leaves its resources."""
    cdef Interface* i = &s.noc.at[flow]
    cdef Flow* f = &s.share.flow[flow]
    cdef nbytes_t under_way = i.entered - (f.total - f.left if i.gives else i.ejected)
    cdef bint full = s.noc.window - under_way < min(s.noc.packet, f.total - i.entered)
    if (full or i.entered == f.total) and f.entered:
        share_quit(&s.share, flow, now + 1)
    elif i.full and not full and not f.out:
        s.rejoin[s.n_rejoin] = flow
        s.n_rejoin += 1
    i.full = full


cdef bint goes_before(Sim* s, slot_t one, slot_t other) noexcept nogil:
    """The order of packets in T6."""
    cdef int64_t a = s.noc.net.packet[one].tag, b = s.noc.net.packet[other].tag
    if a >> 32 != b >> 32:
        return comes_before(s, <slot_t>(a >> 32), <slot_t>(b >> 32))
    return a < b


cdef void go_on(Sim* s, slot_t packet) noexcept nogil:
    """Let the packet enter its next segment in the next cycle."""
    cdef Interfaces* x = s.noc
    cdef int32_t k = x.n_going_on
    while k and goes_before(s, packet, x.going_on[k - 1]):
        x.going_on[k] = x.going_on[k - 1]
        k -= 1
    x.going_on[k] = packet
    x.n_going_on += 1


cdef void count(Interfaces* x, Interface* i, Packet* q, Segment* g) noexcept nogil:
    """Count the flits, clocks and waits of a packet in a segment."""
    cdef int32_t k
    i.packets += 1
    i.flits += q.flits
    i.travel += q.end - q.queued_at
    i.alone += g.alone + q.flits - 1
    for k in range(WAITS):
        i.waits[k] += q.waits[k]


cdef void ejected(Sim* s, slot_t packet) noexcept nogil:
    """F6: handle the ejection of a packet's tail."""
    cdef Interfaces* x = s.noc
    cdef Packet* q = &x.net.packet[packet]
    cdef slot_t flow = <slot_t>(q.tag >> 32)
    cdef Flow* f = &s.share.flow[flow]
    cdef Interface* i = &x.at[flow]
    count(x, i, q, &x.segment[f.route.segment + q.segment])
    q.segment += 1
    if q.segment < f.route.segments:
        go_on(s, packet)
        return
    i.ejected += min(x.packet, f.total - (q.tag & <int64_t>0xffffffff) * x.packet)
    q.next = x.free_packet
    x.free_packet = packet


cdef void routers_phase(Sim* s, cycle_t now) noexcept nogil:
    """P6b."""
    cdef Interfaces* x = s.noc
    cdef int32_t k
    cdef slot_t packet, following, flow
    cdef Packet* q
    for k in range(x.n_going_on):                           # T6
        q = &x.net.packet[x.going_on[k]]
        put(x, q, &x.segment[s.share.flow[q.tag >> 32].route.segment + q.segment], now)
        network_send(&x.net, x.going_on[k])
    x.n_going_on = 0
    for k in range(x.n_active):
        enter(s, x.active[k], now)
    if x.next <= now or x.net.n_queued:                     # T7
        network_clock(&x.net, now)
        packet = x.net.ended
        while packet != NONE:
            following = x.net.packet[packet].next
            ejected(s, packet)
            packet = following
        x.next = network_next(&x.net, now)
    for k in range(x.n_active):                             # T8
        flow = x.active[k]
        find_room(s, flow, now)
        if not x.at[flow].gives and x.at[flow].ejected == s.share.flow[flow].total:
            flow_over(s, flow)
