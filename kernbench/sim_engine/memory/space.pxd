cimport cython

from kernbench.sim_engine.memory.keys cimport Keys
from kernbench.sim_engine.memory.ranges cimport RangeMap

cdef class Sheet:
    cdef readonly long long start, end
    cdef public object data, written

cdef class Space(dict):
    cdef public Keys starts
    cdef readonly set owned
    cdef public dict tensors
    cdef readonly set changed
    cdef public RangeMap pending
    cdef public bint constant
    cdef public list sheets

    cpdef put(self, object addr, object array)

    cpdef put_tensor(self, object addr, object array, Py_ssize_t nbytes, tuple tensor)

    cdef _put(self, object addr, object array, Py_ssize_t nbytes, tuple tensor)

    cdef _clear(self, object start, object end)

    @cython.locals(one=Sheet)
    cpdef tuple sheet(self, long long start, long long end)

    @cython.locals(sheet=Sheet)
    cpdef close_sheets(self, long long start, long long end)

    cdef tuple _block_at(self, object addr)

    @cython.locals(found=tuple)
    cpdef tensor(self, object start, object end, tuple shape, object dtype)


cpdef stored_bytes(object array)
