cimport cython

from kernbench.sim_engine.memory.space cimport Space

cdef class MemoryStore:
    cdef public dict _storage
    cdef bint _constant

    cpdef write(self, object space, object addr, object data)

    @cython.locals(memory=Space, arrays=dict)
    cpdef tensor(self, object space, object addr, tuple shape, object dtype)

    @cython.locals(memory=Space)
    cdef _typed(self, object space, object addr, tuple shape, object dtype)

    cpdef Space _space(self, object name)
