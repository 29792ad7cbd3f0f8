"""The counters of a run."""
from kernbench_core.model.sim cimport Sim

cdef dict counters_of(Sim* s)
cdef list outputs_of(Sim* s)
cdef tuple totals_of(Sim* s)
cdef tuple router_queues(Sim* s)
cdef list live_flows(Sim* s)
