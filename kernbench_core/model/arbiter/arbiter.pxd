"""The arbiters of scratchpads, by number."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport N_ARBITERS, cycle_t

cdef struct Arbiter:          # a rule
    void (*arbitrate)(Sim* s, Spm* p, cycle_t now) noexcept nogil  # P5: grants the requests of `Spm.asking`
    bint pointers             # it keeps a client for each bank in `Spm.pointer`, which snapshots then hold

cdef Arbiter[N_ARBITERS] ARBITERS  # by `ArbiterRule`
