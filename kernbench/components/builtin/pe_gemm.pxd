cimport cython

from kernbench.common.pe_ops cimport GemmCmd
from kernbench.components.builtin.part cimport Serving

cdef class Products(Serving):
    cdef object _te
    cdef dict _times

    cpdef orders(self, GemmCmd msg)
