"""`fifo_v1` of docs/model/sharing.md, P4: a channel serves one flow at a time, in the order of starts; links are shared by
weight."""
from kernbench_core.model.share.membership cimport Share, share_join, share_leave
from kernbench_core.model.share.shared_bw cimport shared_bw_rates
from kernbench_core.types cimport NONE, cycle_t, int32_t, slot_t

cdef inline void serve_lines(Share* s, cycle_t now) noexcept nogil:
    """The head of the waiting line of each changed channel becomes the member, and the previous member leaves."""
    cdef int32_t i, n = s.n_dirty            # joins and leaves append links, and only channels that are already in the list
    cdef slot_t res, head, member
    for i in range(n):
        res = s.dirty[i]
        if res >= s.channels:
            continue
        head = s.line[res]
        member = s.res[res].first
        if member != NONE:
            member = member >> s.hop_shift
        if member == head:
            continue
        if member != NONE:
            share_leave(s, member, now)
        if head != NONE:
            share_join(s, head, now)

cdef inline void fifo_rates(Share* s, cycle_t now) noexcept nogil:
    """Set the members of changed channels, then the rates of all flows on changed resources."""
    serve_lines(s, now)
    shared_bw_rates(s, now)
