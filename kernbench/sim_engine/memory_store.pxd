cimport cython

from kernbench.sim_engine.memory_space cimport Space

cdef class MemoryStore:
    cdef public dict _storage

    cpdef write(self, object space, object addr, object data)

    @cython.locals(memory=Space)
    cpdef exact(self, object space, object addr, object shape, object dtype)

    cpdef Space _space(self, object name)
