"""A component's flow is a member of its resources like any other flow (docs/model/sharing.md), but makes no requests to a scratchpad: whole
bytes move as its carry allows. Its carry is therefore not updated until it reaches a piece of PIECE bytes, or the last bytes:
`Requester.next_at` is that cycle.
"""
from libc.string cimport memset

from kernbench_core.plugin.abi cimport KB_FLOW
from kernbench_core.plugin.cycle_heap cimport clock_set
from kernbench_core.plugin.component_tables cimport Plugs, slot_of, plug_notify
from kernbench_core.model.share.membership cimport Flow, flow_accrue, flow_next, share_enter, share_join, share_leave, share_quit
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport FIFO, NEVER, NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t

cdef enum:
    PIECE = 1 << 30           # [B] a size for which PIECE * den stays below 2**61


cdef int32_t owner_of(Plugs* p, slot_t k) noexcept nogil:
    """The component that owns a place: places of a component are adjacent."""
    cdef int32_t low = 0, high = p.n - 1, middle
    while low < high:
        middle = (low + high + 1) >> 1
        if p.plug[middle].first_flow <= k:
            low = middle
        else:
            high = middle - 1
    return low


cdef void leave(Sim* s, slot_t slot, cycle_t at) noexcept nogil:
    cdef Flow* f = &s.share.flow[slot]
    if s.share.rule != FIFO or f.bus != NONE:
        share_quit(&s.share, slot, at)
    elif f.entered:
        f.entered = False
        share_leave(&s.share, slot, at)
    clock_set(&s.plugs.ends, slot - s.plugs.first_flow, NEVER)


cdef void count(Sim* s, int32_t c, Flow* f, nbytes_t nbytes) noexcept nogil:
    """Count the bytes of a closed flow."""
    cdef int32_t h
    for h in range(f.route.length):
        s.share.res[s.share.path[f.route.first + h]].bytes += nbytes
    s.plugs.state[c].nbytes += nbytes


cdef int64_t flow_open(Sim* s, int32_t c, nbytes_t nbytes, const int32_t* path, int32_t n, int32_t weight, cycle_t at) noexcept nogil:
    """Make a flow a member from cycle `at` on, or add it to the waiting line under FIFO; there is a free place. Returns its id."""
    cdef Plugs* p = s.plugs
    cdef slot_t k = p.free_flow[c], slot = p.first_flow + k
    cdef Flow* f = &s.share.flow[slot]
    cdef int32_t h
    p.free_flow[c] = p.flow[k].next
    p.flow[k].id = p.numbers << 32 | k
    p.flow[k].ended = False
    p.numbers += 1
    p.state[c].flows += 1
    p.open += 1
    memset(f, 0, sizeof(Flow))
    f.den = 1
    f.rated = -1
    f.seen = at
    f.total = nbytes
    f.left = nbytes
    f.piece = min(nbytes, PIECE)
    f.weight = weight
    f.job = NONE
    f.sibling = NONE
    f.line_next = NONE
    f.started = at
    f.engine = s.n_dma + c
    f.job_seq = p.flow[k].id >> 32
    f.bus = NONE
    f.route.first = k * p.max_path             # components use the first part of the table
    f.route.length = n
    for h in range(n):
        s.share.path[f.route.first + h] = path[h]
        if path[h] < s.share.channels:
            f.bus = path[h]
    if s.share.rule != FIFO or f.bus != NONE:
        share_enter(&s.share, slot, at)
    else:
        f.entered = True
        share_join(&s.share, slot, at)
    return p.flow[k].id


cdef void flow_due(Sim* s, slot_t k, cycle_t now) noexcept nogil:
    """P7: a piece has moved, often the last one; then the component is notified."""
    cdef Plugs* p = s.plugs
    cdef slot_t slot = p.first_flow + k
    cdef Flow* f = &s.share.flow[slot]
    cdef int32_t c
    flow_accrue(f, now + 1 - f.seen)
    f.seen = now + 1
    while f.left and f.carry >= f.piece * f.den:
        f.carry -= f.piece * f.den
        f.left -= f.piece
        f.piece = min(f.left, PIECE)
    if f.left:
        s.requester[slot].next_at = flow_next(f)
        clock_set(&p.ends, k, s.requester[slot].next_at)
        return
    c = owner_of(p, k)
    leave(s, slot, now + 1)
    count(s, c, f, f.total)
    p.flow[k].ended = True
    plug_notify(p, c, KB_FLOW, p.flow[k].id)


cdef nbytes_t flow_moved(Sim* s, slot_t k, cycle_t at) noexcept nogil:
    """The bytes moved before cycle `at`; the flow is not changed."""
    cdef Flow* f = &s.share.flow[s.plugs.first_flow + k]
    cdef int64_t carry = f.carry
    if f.member and at > f.seen:
        carry += (at - f.seen) * f.num
    return min(f.total, f.total - f.left + carry // f.den)


cdef void flow_free(Plugs* p, int32_t c, slot_t k) noexcept nogil:
    p.flow[k].id = -1
    p.flow[k].next = p.free_flow[c]
    p.free_flow[c] = k
    p.state[c].flows -= 1
    p.open -= 1


cdef int64_t flow_close(Sim* s, int32_t c, int64_t id, cycle_t at) noexcept nogil:
    """Close a flow early; return the bytes that it moved, or -1 if the component has no such flow."""
    cdef Plugs* p = s.plugs
    cdef slot_t k = <slot_t>slot_of(id)
    cdef nbytes_t moved
    cdef int32_t i
    if id < 0 or not 0 <= k < s.n_open or p.flow[k].id != id or owner_of(p, k) != c:
        return -1
    moved = flow_moved(s, k, at)
    if p.flow[k].ended:                         # it ended in this cycle: the component is not notified
        for i in range(p.n_notices):
            if p.notice[i].kind == KB_FLOW and p.notice[i].id == id:
                p.notice[i].to = NONE
    else:
        leave(s, p.first_flow + k, at)
        count(s, c, &s.share.flow[p.first_flow + k], moved)
    flow_free(p, c, k)
    return moved
