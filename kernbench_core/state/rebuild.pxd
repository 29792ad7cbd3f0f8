"""Data that a snapshot does not contain, because they follow from its content."""
from kernbench_core.model.sim cimport Sim

cdef void fold(Sim* s) noexcept nogil
cdef void rebuild(Sim* s) noexcept nogil
