"""One clock of a network of routers: rules F1, F5 and F6 of docs/model/flits.md; F2 to F4 are in allocators.pyx."""
from kernbench_core.model.noc.allocators cimport match_channels, match_switches
from kernbench_core.model.noc.routers cimport (
    HEAD, TAIL, WAIT_NO_CHANNEL, WAIT_NO_CREDIT, Arrival, Behind, Flit, Input, InputVc, Output, Packet, Terminal, bit,
    channel_of, from_pointer, idle, low_bit, port_of, range_of, route, vc_of)
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, slot_t, uint64_t


cdef inline void send_flit(Network* w, cycle_t at, int32_t vc, slot_t packet, int32_t hop, int32_t kind) noexcept nogil:
    """Let a flit arrive in a later clock."""
    cdef int32_t slot = at & (w.horizon - 1), n = w.n_due[slot]
    cdef Arrival* e = &w.due[<int64_t>slot * w.max_due + n]
    w.n_due[slot] = n + 1
    e.flit.packet, e.flit.hop, e.flit.kind = packet, hop, kind
    e.vc = vc


cdef inline void send_credit(Network* w, cycle_t at, int32_t vc) noexcept nogil:
    """Let a credit return to a channel of an output in a later clock."""
    cdef int32_t slot = at & (w.horizon - 1), n = w.n_back[slot]
    w.back[<int64_t>slot * w.max_credits_due + n] = vc
    w.n_back[slot] = n + 1


cdef inline void queue_up(Network* w, Arrival* e) noexcept nogil:
    """Put a flit behind the others of its channel."""
    cdef Behind* b = &w.behind[e.vc]
    cdef int32_t position = b.second + b.n
    w.ring[<int64_t>e.vc * w.depth + (position if position < w.depth else position - w.depth)] = e.flit
    b.n += 1


cdef inline void move_up(Network* w, Input* p, int32_t vc, uint64_t channel) noexcept nogil:
    """Make the second flit of a channel the first."""
    cdef Behind* b = &w.behind[vc]
    cdef Flit* flit = &w.ring[<int64_t>vc * w.depth + b.second]
    cdef InputVc* v = &w.in_vc[vc]
    v.packet, v.hop, v.kind = flit.packet, flit.hop, <unsigned char>flit.kind
    b.second = b.second + 1 if b.second + 1 < w.depth else 0
    b.n -= 1
    if b.n == 0:
        p.more &= ~channel


cdef inline void begin_waiting(Network* w, Input* p, int32_t vc, uint64_t channel) noexcept nogil:
    """The first flit of a channel is now a head."""
    p.waiting |= channel
    route(w, &w.in_vc[vc])
    w.waiting[w.n_waiting] = vc
    w.n_waiting += 1


cdef inline void arrive(Network* w, Arrival* e, cycle_t now) noexcept nogil:
    """F1: a flit arrives in the buffer of its channel."""
    cdef uint64_t channel = bit(channel_of(w, e.vc))
    cdef Input* p = &w.input[port_of(w, e.vc)]
    cdef InputVc* v
    p.occupied -= now
    p.n += 1
    p.most = max(p.most, p.n)
    if p.held & channel:
        p.more |= channel
        queue_up(w, e)
        return
    p.held |= channel
    v = &w.in_vc[e.vc]
    v.packet, v.hop, v.kind = e.flit.packet, e.flit.hop, <unsigned char>e.flit.kind
    if p.active & channel:
        w.ready[w.n_ready] = e.vc
        w.n_ready += 1
    else:
        begin_waiting(w, p, e.vc, channel)


cdef inline void eject(Network* w, Arrival* e, cycle_t now) noexcept nogil:
    """F6: a terminal takes a flit; its packet ends with the tail."""
    cdef int32_t vc = -1 - e.vc
    cdef Packet* p
    send_credit(w, now + w.output[port_of(w, vc)].credit, vc)
    if not e.flit.kind & TAIL:
        return
    p = &w.packet[e.flit.packet]
    p.end = now
    p.next = NONE
    if w.ended == NONE:
        w.ended = e.flit.packet
    else:
        w.packet[w.ended_last].next = e.flit.packet
    w.ended_last = e.flit.packet


cdef void arrivals(Network* w, cycle_t now) noexcept nogil:
    cdef int32_t k, slot = now & (w.horizon - 1), n_due = w.n_due[slot], n_back = w.n_back[slot]
    cdef Arrival* due = &w.due[<int64_t>slot * w.max_due]
    cdef int32_t* back = &w.back[<int64_t>slot * w.max_credits_due]
    w.n_due[slot] = w.n_back[slot] = 0
    for k in range(n_due):
        if due[k].vc >= 0:
            arrive(w, &due[k], now)
        else:
            eject(w, &due[k], now)
    for k in range(n_back):
        if w.out_vc[back[k]].credits == 0:
            w.output[port_of(w, back[k])].empty &= ~bit(channel_of(w, back[k]))
        w.out_vc[back[k]].credits += 1


cdef inline void leave(Network* w, int32_t vc, slot_t packet, int32_t hop, int32_t kind, cycle_t now) noexcept nogil:
    """Send a flit to the input or the terminal at the end of an output's channel. The flit occupies the link for den/num clocks.
    Fractions of a clock are carried over between consecutive flits."""
    cdef Output* o = &w.output[port_of(w, vc)]
    cdef int32_t channel = channel_of(w, vc)
    cdef int64_t at
    if o.num != o.den:
        at = now * o.num
        o.busy = (o.busy if o.busy > at - o.num else at) + o.den
    o.flits += 1
    w.out_vc[vc].credits -= 1
    if w.out_vc[vc].credits == 0:
        o.empty |= bit(channel)
    if kind & TAIL:
        o.taken &= ~bit(channel)
    send_flit(w, now + o.latency, vc_of(w, o.input, channel) if o.input != NONE else -1 - vc, packet, hop, kind)


cdef void inject(Network* w, int32_t k, cycle_t now) noexcept nogil:
    """F6: a terminal sends a flit of its oldest packet. The head takes the first channel after that of the last packet that is free and
    has a credit."""
    cdef Terminal* t = &w.terminal[k]
    cdef Output* o = &w.output[t.output]
    cdef Packet* p = &w.packet[t.first]
    cdef slot_t packet = t.first
    cdef uint64_t free
    if not idle(o, now):
        return
    if t.sent == 0:
        free = ~(o.taken | o.empty) & range_of(0, w.channels - 1)
        if free == 0:
            o.no_channel += 1
            p.waits[<int>WAIT_NO_CHANNEL] += 1
            return
        t.channel = from_pointer(free, t.channel + 1 if t.channel + 1 < w.channels else 0)
        o.taken |= bit(t.channel)
    elif o.empty >> t.channel & 1:
        o.no_credit += 1
        p.waits[<int>WAIT_NO_CREDIT] += 1
        return
    t.sent += 1
    leave(w, vc_of(w, t.output, t.channel), packet, p.hop, (HEAD if t.sent == 1 else 0) | (TAIL if t.sent == p.flits else 0), now)
    if t.sent == p.flits:
        t.sent = 0
        t.first = p.next
        w.n_queued -= 1
        if t.first == NONE:
            t.last = NONE
            w.queued[k >> 6] &= ~bit(k & 63)


cdef inline bint depart(Network* w, int32_t vc, cycle_t now) noexcept nogil:
    """F5: a granted flit leaves its buffer, and its credit is returned. The pointers of F4 move on. Return whether the channel is still
    ready."""
    cdef int32_t channel = channel_of(w, vc)
    cdef uint64_t mine = bit(channel)
    cdef InputVc* v = &w.in_vc[vc]
    cdef Input* p = &w.input[port_of(w, vc)]
    cdef Output* o = &w.output[port_of(w, v.to)]
    cdef bint tail = v.kind & TAIL
    o.grant = p.after
    o.requested = False
    p.accept = o.after
    p.channel = <unsigned char>(channel + 1 if channel + 1 < w.channels else 0)
    p.granted = 0
    p.occupied += now
    p.n -= 1
    leave(w, v.to, v.packet, v.hop, v.kind, now)
    send_credit(w, now + p.credit, vc_of(w, p.output, channel))
    if tail:
        p.active &= ~mine
    if not p.more & mine:
        p.held &= ~mine
        return False
    move_up(w, p, vc, mine)
    if tail:                                                # a head follows
        begin_waiting(w, p, vc, mine)
    return not tail


cdef inline void departures(Network* w, int32_t n, cycle_t now) noexcept nogil:
    """F5 of the first `n` channels of `ready`. The flits behind the departed flits became ready in this clock."""
    cdef int32_t k, vc, kept = 0
    for k in range(n):
        vc = w.ready[k]
        if w.input[port_of(w, vc)].granted != 1 + channel_of(w, vc) or depart(w, vc, now):
            w.ready[kept] = vc
            kept += 1
    for k in range(n, w.n_ready):
        w.ready[kept] = w.ready[k]
        kept += 1
    w.n_ready = kept


cdef void network_send(Network* w, slot_t packet) noexcept nogil:
    """Append a packet to the queue of its terminal; the packet may leave in this clock, if the clock has not been run."""
    cdef Packet* p = &w.packet[packet]
    cdef Terminal* t = &w.terminal[p.source]
    p.next = NONE
    p.end = NEVER
    if t.first == NONE:
        t.first = packet
        w.queued[p.source >> 6] |= bit(p.source & 63)
    else:
        w.packet[t.last].next = packet
    t.last = packet
    w.n_queued += 1


cdef void network_clock(Network* w, cycle_t now) noexcept nogil:
    """One clock. Packets that end are listed from `ended` on, and the caller removes them.

    The allocators read the state before the departures, and the switch is matched before heads take channels.
    """
    cdef int32_t k, ready
    cdef uint64_t todo
    w.ended = NONE
    arrivals(w, now)
    if w.n_queued:
        for k in range((w.terminals + 63) >> 6):
            todo = w.queued[k]
            while todo:
                inject(w, 64 * k + low_bit(todo), now)
                todo &= todo - 1
    ready = w.n_ready
    match_switches(w, now)
    match_channels(w)
    departures(w, ready, now)


cdef cycle_t network_next(Network* w, cycle_t now) noexcept nogil:
    """The next clock in which anything moves or is counted; NEVER if the network is empty."""
    cdef int32_t k
    if w.n_queued or w.n_waiting or w.n_ready:
        return now + 1
    for k in range(1, w.horizon + 1):
        if w.n_due[(now + k) & (w.horizon - 1)] or w.n_back[(now + k) & (w.horizon - 1)]:
            return now + k
    return NEVER
