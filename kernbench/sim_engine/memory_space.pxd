from kernbench.sim_engine.memory_keys cimport Keys
from kernbench.sim_engine.memory_ranges cimport RangeMap

cdef class Space(dict):
    cdef public Keys starts
    cdef readonly set owned
    cdef public dict tensors
    cdef public RangeMap pending

    cpdef put(self, object addr, object array)
