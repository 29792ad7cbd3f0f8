cimport cython


@cython.no_gc
@cython.freelist(64)
cdef class Block:
    cdef readonly Scratchpad pad
    cdef readonly long long addr
    cdef readonly long long nbytes
    cdef Py_ssize_t place

cdef class Scratchpad:
    cdef readonly long long base
    cdef readonly long long size
    cdef readonly Py_ssize_t held
    cdef long long _line
    cdef long long[::1] _starts
    cdef long long[::1] _sizes
    cdef Py_ssize_t _holes
    cdef long long[::1] _taken
    cdef long long[::1] _taken_bytes
    cdef long long[::1] _numbers
    cdef list _owners
    cdef list _free_places

    @cython.locals(size="long long", addr="long long", room="long long", i="Py_ssize_t", block=Block, place="Py_ssize_t")
    cpdef Block take(self, long long nbytes, tuple who, long long number=*)

    cdef Py_ssize_t _enter(self, long long addr, long long size, tuple who, long long number) except -1

    @cython.locals(i="Py_ssize_t", before="bint", after="bint", addr="long long", nbytes="long long")
    cpdef give_back(self, Py_ssize_t place)

    @cython.locals(k="Py_ssize_t")
    cdef _close(self, Py_ssize_t i)

    @cython.locals(k="Py_ssize_t")
    cdef _open(self, Py_ssize_t i, long long addr, long long nbytes)
