cimport cython


@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, one="long long")
cdef Py_ssize_t _below(list run, long long key) except -1


cdef class Keys:
    cdef list _runs
    cdef list _firsts

    @cython.locals(at=Py_ssize_t, i=Py_ssize_t, run=list)
    cpdef before(self, long long key)

    @cython.locals(at=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, run=list, found=list)
    cpdef list within(self, long long start, long long end)

    @cython.locals(at=Py_ssize_t, run=list)
    cpdef add(self, long long key)

    @cython.locals(at=Py_ssize_t, run=list)
    cpdef discard(self, object keys)
