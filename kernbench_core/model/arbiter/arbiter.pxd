"""The arbiters of scratchpads, by number."""
from kernbench_core.model.arbiter.rule cimport N_ARBITERS
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef struct Arbiter:          # one rule of arbitration
    void (*arbitrate)(Sim* s, Spm* p, cycle_t now) noexcept nogil  # P5: grants the requests in `Spm.requesting`
    bint pointers             # whether the rule stores a client for each bank in `Spm.pointer`, which is then part of snapshots

cdef Arbiter[N_ARBITERS] ARBITERS  # indexed by `ArbiterRule`
