"""The readable state of a stopped run: entries, counters, engines."""
from kernbench_core.model.sim cimport Sim

cdef tuple entries_of(Sim* s)
cdef dict counters_of(Sim* s)
cdef list outputs_of(Sim* s)
cdef dict engines_of(Sim* s)
cdef tuple waiting_of(Sim* s)
cdef object arrivals_of(Sim* s)
cdef list overlaps_of(Sim* s)
cdef tuple totals_of(Sim* s)
cdef tuple router_queues(Sim* s)
