from kernbench.sim_engine.memory_keys cimport Keys

cdef class Space(dict):
    cdef public Keys starts
    cdef readonly set owned
    cdef public dict tensors
    cdef public object pending

    cpdef put(self, object addr, object array)
