"""Weighted max-min shares by progressive filling in exact rationals (docs/model/sharing.md, `max_min_v1`)."""
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t, int64_t

cdef extern from "model/share/ratio.h" nogil:
    ctypedef struct kb_ratio:
        pass
    kb_ratio kb_ratio_of(int64_t num, int64_t den)
    kb_ratio kb_minus(kb_ratio r, kb_ratio q, int64_t k, int* bad)
    kb_ratio kb_over(kb_ratio r, int64_t k, int* bad)
    bint kb_less(kb_ratio a, kb_ratio b, int* bad)
    void kb_rate(kb_ratio r, int64_t k, int64_t* num, int64_t* den, int* bad)

cdef struct Fill:             # one resource while shares are filled
    kb_ratio left             # capacity that no frozen flow takes [B/cycle]
    int64_t weight            # of the members that are not frozen
    int64_t freezing          # of those that freeze at this level

cdef void max_min_rates(Share* s, cycle_t now) noexcept nogil
