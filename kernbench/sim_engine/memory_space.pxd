cimport cython

cdef class Space(dict):
    cdef public list starts
    cdef readonly set owned
    cdef public dict tensors
    cdef public object pending

    cpdef put(self, object addr, object array)
