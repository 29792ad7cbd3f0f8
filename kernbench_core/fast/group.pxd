"""A part of a machine that shares no resource with the rest of it (docs/adr/0035-groups.md)."""
from kernbench_core.model.heap cimport TimerHeap
from kernbench_core.types cimport cycle_t, int32_t

cdef struct Group:  # scratchpads that share no resource with other groups, and the group's state between its cycles (fast/groups.pyx)
    int32_t first_spm, n_spm  # its part of `member` and `touched`; the fields with `n_` are as in Sim, which has the current group's values
    int32_t first_tree        # index of the first node of its tree in `Sim.horizon`
    int32_t leaves            # number of leaves of this tree, a power of two
    int32_t first_flow        # index of its first item in `free_flow`, `rejoin` and `joins`
    int32_t first_compute     # index of its first item in `ends`
    int32_t first_res         # index of its first item in `share.dirty`
    int32_t word, words       # its part of `wanted`
    int32_t n_free, n_rejoin, n_touched, n_joins, n_ends, n_dirty  # lengths of its parts of the lists of `Sim` and `Share`
    bint any_wanted           # whether P3 has work in the group

cdef struct Groups:
    int32_t n                 # number of groups; 1: the machine is not divided
    Group* group              # [n] the groups
    cycle_t* at               # [n] the group has no event before this cycle
    int32_t* engine_bit       # the bit of each engine in `Sim.wanted`: DMA engines, TEs and VEs, components; a word has one group
    int32_t* bit_engine       # the engine of each bit
    int32_t* word             # the group of each word of `Sim.wanted`
    TimerHeap early           # jobs that groups issued while running ahead, by cycle and position
