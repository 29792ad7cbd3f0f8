cimport cython


@cython.no_gc
@cython.freelist(64)
cdef class Block:
    cdef readonly Scratchpad pad
    cdef readonly long long addr
    cdef readonly long long nbytes

cdef class Scratchpad:
    cdef readonly long long base
    cdef readonly long long size
    cdef long long _line
    cdef list _starts
    cdef list _sizes
    cdef readonly dict tiles

    @cython.locals(size="long long", addr="long long", room="long long", i="Py_ssize_t")
    cpdef Block take(self, long long nbytes, tuple who)

    @cython.locals(i="Py_ssize_t")
    cpdef give_back(self, long long addr, long long nbytes)
