"""Systolic arrays whose jobs overlap: a job enters while the results of earlier jobs drain (docs/model/compute.md)."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef void array_enter(Sim* s, int32_t c, cycle_t now) noexcept nogil
cdef void array_leave(Sim* s, int32_t c, cycle_t now) noexcept nogil
cdef int32_t array_drained(Sim* s, int32_t c, cycle_t end) noexcept nogil
