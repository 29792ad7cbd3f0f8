cimport cython

from kernbench.common.pe_ops cimport DmaReadCmd

cdef class Ranges:
    cdef readonly list items
    cdef object _longest

cdef class MemoryOrder:
    cdef Ranges _loads
    cdef list _fresh
    cdef Ranges _stores
    cdef Ranges _reads

    cpdef load_issued(self, DmaReadCmd msg)

    @cython.locals(last=DmaReadCmd)
    cpdef load_ended(self, DmaReadCmd msg)
