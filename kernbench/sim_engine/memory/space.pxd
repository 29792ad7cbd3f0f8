cimport cython

from kernbench.sim_engine.memory.keys cimport Keys
from kernbench.sim_engine.memory.ranges cimport RangeMap

cdef class Space(dict):
    cdef public Keys starts
    cdef readonly set owned
    cdef public dict tensors
    cdef public RangeMap pending
    cdef public bint constant

    cpdef put(self, object addr, object array)

    cdef _put(self, object addr, object array, Py_ssize_t nbytes, tuple tensor)

    cdef _clear(self, object start, object end)

    cdef tuple _block_at(self, object addr)

    @cython.locals(found=tuple)
    cpdef tensor(self, object start, object end, tuple shape, object dtype)


cpdef stored_bytes(object array)
