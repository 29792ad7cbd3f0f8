"""The readable state of a stopped run: entries and engines."""
from kernbench_core.model.sim cimport Sim

cdef tuple entries_of(Sim* s)
cdef dict engines_of(Sim* s)
cdef tuple waiting_of(Sim* s)
cdef object arrivals_of(Sim* s)
cdef list overlaps_of(Sim* s)
