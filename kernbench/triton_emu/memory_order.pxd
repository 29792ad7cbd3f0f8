cimport cython

from kernbench.common.pe_ops cimport DmaReadCmd

cdef class Ranges:
    cdef dict _grids
    cdef readonly Py_ssize_t held

    @cython.locals(shift="int", grid=dict)
    cpdef add(self, object start, object end, object msg)

    @cython.locals(cell=dict)
    cdef _enter(self, dict grid, object number, tuple key, object msg)

    @cython.locals(shift="int", grid=dict, cell=dict)
    cpdef remove(self, object start, object end, object msg)

    @cython.locals(grid=dict)
    cpdef list over(self, object start, object end)

    @cython.locals(cell=dict, key=tuple)
    cdef _look(self, list found, object shift, dict grid, object start, object end)

cdef class MemoryOrder:
    cdef Ranges _loads
    cdef list _fresh
    cdef Ranges _stores
    cdef Ranges _reads

    cpdef load_issued(self, DmaReadCmd msg)

    @cython.locals(last=DmaReadCmd)
    cpdef load_ended(self, DmaReadCmd msg)
