"""`max_min_v1` of docs/model/sharing.md, P4: weighted max-min shares by progressive filling, in exact rationals.

All shares rise together. When a resource is full, the shares of its members are frozen, and the others continue to rise. Every
change of membership recomputes all shares, because under this rule a change can affect any flow.
"""
from kernbench_core.model.share.membership cimport Flow, Share, set_rate
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t, slot_t

cdef extern from "model/share/ratio.h" nogil:
    ctypedef struct kb_ratio:
        pass
    kb_ratio kb_ratio_of(int64_t num, int64_t den)
    kb_ratio kb_minus(kb_ratio r, kb_ratio q, int64_t k, int* bad)
    kb_ratio kb_over(kb_ratio r, int64_t k, int* bad)
    bint kb_less(kb_ratio a, kb_ratio b, int* bad)
    void kb_rate(kb_ratio r, int64_t k, int64_t* num, int64_t* den, int* bad)

cdef struct Fill:             # one resource during progressive filling
    kb_ratio left             # [B/cycle] capacity that no frozen flow uses
    int64_t weight            # weight of the members that are not frozen
    int64_t freezing          # weight of the members that freeze at this level

cdef inline int32_t tightest(Share* s, Fill* fill, kb_ratio* level, int* bad) noexcept nogil:
    """The index of the resource that fills first, and its share for each unit of weight in `level`; NONE if no resource has
    unfrozen members."""
    cdef int32_t i, best = NONE
    cdef kb_ratio share
    for i in range(s.n_res):
        if fill[i].weight:
            share = kb_over(fill[i].left, fill[i].weight, bad)
            if best == NONE or kb_less(share, level[0], bad):
                best = i
                level[0] = share
    return best

cdef inline void start_filling(Share* s, Fill* fill) noexcept nogil:
    """All resources are empty, and no flow is frozen."""
    cdef int32_t i
    cdef slot_t node
    for i in range(s.n_res):
        fill[i].left = kb_ratio_of(s.res[i].num, s.res[i].den)
        fill[i].weight = s.res[i].weight
        fill[i].freezing = 0
        node = s.res[i].first
        while node != NONE:
            s.flow[node >> s.hop_shift].frozen = False
            node = s.node_next[node]

cdef inline void freeze_members(Share* s, Fill* fill, int32_t full, kb_ratio level, cycle_t now, int* bad) noexcept nogil:
    """A resource is full: its members get their rates, and are frozen. Add their weights to `freezing` of all resources of their routes."""
    cdef slot_t node = s.res[full].first, flow
    cdef Flow* f
    cdef int64_t num = 0, den = 1
    cdef int32_t h
    while node != NONE:
        flow = node >> s.hop_shift
        f = &s.flow[flow]
        node = s.node_next[node]
        if f.frozen:
            continue
        f.frozen = True
        kb_rate(level, f.weight, &num, &den, bad)
        if bad[0]:
            return                          # no rate can be set, and the run ends in this phase
        set_rate(s, flow, num, den, now)
        for h in range(f.route.length):
            fill[s.path[f.route.first + h]].freezing += f.weight

cdef inline void take_frozen(Share* s, Fill* fill, kb_ratio level, int* bad) noexcept nogil:
    """Take what the newly frozen flows use from the capacity of their resources."""
    cdef int32_t i
    for i in range(s.n_res):
        if fill[i].freezing:
            fill[i].left = kb_minus(fill[i].left, level, fill[i].freezing, bad)
            fill[i].weight -= fill[i].freezing
            fill[i].freezing = 0

cdef inline void max_min_rates(Share* s, cycle_t now) noexcept nogil:
    """Set the rates of all flows. `bad`: a ratio does not fit into 128 bits."""
    cdef Fill* fill = <Fill*>s.scratch
    cdef int32_t full
    cdef kb_ratio level
    cdef int bad = 0
    start_filling(s, fill)
    full = tightest(s, fill, &level, &bad)
    while full != NONE and not bad:
        freeze_members(s, fill, full, level, now, &bad)
        take_frozen(s, fill, level, &bad)
        full = tightest(s, fill, &level, &bad)
    if bad:
        s.overflow = True
