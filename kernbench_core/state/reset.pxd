"""Clearing the state of a run."""
from kernbench_core.model.sim cimport Sim

cdef void reset(Sim* s) noexcept nogil
