"""Scratchpads whose banks fit into one word: their requesters are simulated one after another, each over a block of cycles."""
from kernbench_core.model.arbiter.oldest_first cimport by_age
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, slot_t
from kernbench_core.fast.block_ports cimport Walk

cdef bint block_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil
cdef bint narrow_block(Sim* s, Spm* p, int32_t n_due, int64_t n, bint speculative) noexcept nogil
cdef void open_walk(Walk* w, Spm* p, int64_t n) noexcept nogil
cdef void walk_due(Sim* s, Spm* p, Walk* w, int32_t n_due) noexcept nogil
cdef void walk_due_traced(Sim* s, Spm* p, Walk* w, int32_t n_due) noexcept nogil
cdef void switch_notes(Sim* s, Spm* p) noexcept nogil
cdef void notes_begin(Sim* s, int32_t spm) noexcept nogil
cdef void notes_end(Sim* s) noexcept nogil
cdef void narrow_count(Sim* s) noexcept nogil

cdef inline bint block_can(Spm* p) noexcept nogil:
    """All banks are in one word, and all requesters are engines of this scratchpad."""
    return p.narrow and p.n_component_requests == 0 and p.n_pairs == 0 and by_age(p)

cdef inline void narrow_turn(Sim* s, Spm* p) noexcept nogil:
    """Make this scratchpad the one whose denials are noted."""
    if &s.spm[s.noting] != p:
        switch_notes(s, p)

cdef inline int32_t find_due(Sim* s, Spm* p, slot_t* order, int64_t n) noexcept nogil:
    """Write the requesters that have work in the next `n` cycles into `due`; return their number. The test is done first and without a
    branch, because this leaves fewer branches that cannot be predicted."""
    cdef int32_t k, n_order = p.n_order, n_due = 0
    cdef slot_t* due = p.lookahead.due
    cdef Requester* requesters = s.requester
    cdef cycle_t end = p.done + n
    for k in range(n_order):
        due[n_due] = order[k]
        n_due += min(requesters[order[k]].next_at, requesters[order[k]].backpressure_at) < end
    return n_due

cdef inline cycle_t first_due(Sim* s, Spm* p) noexcept nogil:
    """No requester has work in an earlier cycle; NEVER: none has work without another event."""
    cdef cycle_t at = NEVER
    cdef int32_t k
    for k in range(p.n_order):
        at = min(at, s.requester[p.order[k]].next_at, s.requester[p.order[k]].backpressure_at)
    return at
