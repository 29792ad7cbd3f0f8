cimport cython

from kernbench.triton_emu.memory_order cimport MemoryOrder

cdef class MemorySide:
    cdef public object store
    cdef public object log
    cdef public object translation
    cdef MemoryOrder _order
    cdef readonly object new_id
    cdef bint _started

    cpdef load_issued(self, object msg)

    cpdef load_ended(self, object msg)
