"""What a snapshot does not hold, because it follows from what it holds."""
from kernbench_core.model.sim cimport Sim

cdef void fold(Sim* s) noexcept nogil
cdef void rebuild(Sim* s) noexcept nogil
