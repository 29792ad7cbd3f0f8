"""A part of a machine that shares no resource with the rest of it (docs/adr/0035-groups.md)."""
from kernbench_core.model.heap cimport TimerHeap
from kernbench_core.types cimport cycle_t, int32_t

cdef struct Group:            # scratchpads that share no resource with others, and what stands between their cycles (fast/groups.pyx)
    int32_t first_spm, n_spm  # its part of `member` and `touched`; the `n_` are as in Sim, where they stand during its turn
    int32_t first_tree        # of `horizon`,
    int32_t leaves            # which is the tree of so many, a power of two,
    int32_t first_flow        # of `free_flow`, `rejoin` and `joins`,
    int32_t first_compute     # of `ends`,
    int32_t first_res         # of `share.dirty`,
    int32_t word, words       # and of `wanted`
    int32_t n_free, n_rejoin, n_touched, n_joins, n_ends, n_dirty  # lengths of its parts of the lists of `Sim` and `Share`
    bint any_wanted           # P3 has something to try in it

cdef struct Groups:
    int32_t n                 # groups; 1: the machine is not divided
    Group* group              # [n] the groups
    cycle_t* at               # of each: nothing happens in it in an earlier cycle
    int32_t* seat             # an engine's bit in `Sim.wanted`: DMA engines, TEs and VEs, components, in words of their group's own
    int32_t* seated           # which engine has a bit
    int32_t* word             # of which group a word is
    TimerHeap early           # jobs that groups issued by themselves, by cycle and position
