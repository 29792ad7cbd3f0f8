cimport cython

from kernbench.common.pe_ops cimport DmaReadCmd

cdef long long _FIRST

cdef class Ranges:
    cdef dict _grids
    cdef readonly Py_ssize_t held

    @cython.locals(shift="int", first="long long", last="long long", grid=dict, entry=tuple)
    cpdef add(self, long long start, long long end, object msg)

    cdef _enter(self, dict grid, object number, tuple entry)

    @cython.locals(shift="int", first="long long", last="long long", grid=dict)
    cpdef remove(self, long long start, long long end, object msg)

    cdef _leave(self, dict grid, object number, tuple key)

    @cython.locals(grid=dict, found=list)
    cpdef list over(self, long long start, long long end)

    @cython.locals(first="long long", last="long long", number="long long")
    cdef _look(self, list found, int shift, dict grid, long long start, long long end)


@cython.locals(low="long long", high="long long", entry=tuple)
cdef _meet(list found, object there, long long start, long long end, long long least)


cdef long long _last(long long start, long long end)


@cython.locals(shift="int")
cdef int _grid_of(long long start, long long end) except -1

cdef class MemoryOrder:
    cdef Ranges _loads
    cdef list _fresh
    cdef Py_ssize_t _fresh_count
    cdef Ranges _stores
    cdef Ranges _reads

    cpdef load_issued(self, DmaReadCmd msg)

    @cython.locals(last=DmaReadCmd)
    cpdef load_ended(self, DmaReadCmd msg)

    @cython.locals(found=DmaReadCmd, number=Py_ssize_t)
    cpdef store_issued(self, object msg, long long start, long long end)

    cpdef store_ended(self, object msg, long long start, long long end)
