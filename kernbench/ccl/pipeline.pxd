cimport cython

cdef class _Running:
    cdef public object turns
    cdef public bint late, over


@cython.locals(one=_Running)
cdef bint _all_late(list running) except -1
