"""`shared_bw_v1` of docs/model/sharing.md, P4: the rate of a flow is the smallest of its shares by weight along its route."""
from kernbench_core.model.share.membership cimport Flow, Resource, Share, set_rate
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t, slot_t

cdef inline void equal_share(Share* s, slot_t flow, cycle_t now) noexcept nogil:
    """The smallest num * w / (den * W) along the route."""
    cdef Flow* f = &s.flow[flow]
    cdef int64_t num = 0, den = 1, n, d
    cdef int32_t h
    cdef Resource* r
    if f.rated == now:                  # it is a member of several resources that changed
        return
    f.rated = now
    for h in range(f.route.length):
        r = &s.res[s.path[f.route.first + h]]
        n = r.num * f.weight
        d = r.den * r.weight
        if h == 0 or n * den < num * d:     # both sides are below 2**62: the terms are checked when the machine is loaded
            num = n
            den = d
    set_rate(s, flow, num, den, now)

cdef inline void shared_bw_rates(Share* s, cycle_t now) noexcept nogil:
    """Set the rates of all flows on resources whose membership changed."""
    cdef int32_t i
    cdef slot_t node
    for i in range(s.n_dirty):
        node = s.res[s.dirty[i]].first
        while node != NONE:
            equal_share(s, node >> s.hop_shift, now)
            node = s.node_next[node]
