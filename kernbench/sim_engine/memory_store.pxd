cimport cython

from kernbench.sim_engine.memory.space cimport Space

cdef class MemoryStore:
    cdef public dict _storage
    cdef bint _constant
    cdef object _name
    cdef Space _last

    cpdef write(self, object space, object addr, object data)

    @cython.locals(at="long long")
    cpdef write_tensor(self, object space, object addr, object data, Py_ssize_t nbytes, tuple tensor)

    @cython.locals(memory=Space, arrays=dict, written=tuple)
    cpdef tensor(self, object space, object addr, tuple shape, object dtype)

    @cython.locals(memory=Space)
    cdef _typed(self, object space, object addr, tuple shape, object dtype)

    cdef Space _known(self, object name)

    cpdef Space _space(self, object name)


@cython.locals(axis="Py_ssize_t")
cdef bint same_lengths(tuple shape, tuple other) except -1
