cimport cython


@cython.no_gc
@cython.freelist(64)
cdef class Block:
    cdef readonly Scratchpad pad
    cdef readonly long long addr
    cdef readonly long long nbytes
    cdef Allocation allocation


@cython.no_gc
@cython.freelist(64)
cdef class Hole:
    cdef readonly long long addr
    cdef readonly long long nbytes

cdef class Allocation:
    cdef readonly long long addr
    cdef readonly long long nbytes
    cdef readonly tuple owner
    cdef readonly long long number
    cdef Allocation _next

cdef class Scratchpad:
    cdef readonly long long base
    cdef readonly long long size
    cdef readonly Py_ssize_t held
    cdef long long _line
    cdef list _holes
    cdef list _allocations
    cdef Allocation _free

    @cython.locals(size="long long", i="Py_ssize_t", hole=Hole, block=Block)
    cpdef Block take(self, long long nbytes, tuple who, long long number=*)

    @cython.locals(allocation=Allocation)
    cdef Allocation _enter(self, long long addr, long long size, tuple who, long long number)

    @cython.locals(i="Py_ssize_t", count="Py_ssize_t", addr="long long", end="long long", hole=Hole, before=Hole, after=Hole)
    cdef give_back(self, Allocation allocation)
