"""The command queue and the host of a snapshot."""
from kernbench_core.model.sim cimport Sim

cdef void resume_control(Sim* s) noexcept nogil
