cimport cython

cdef class Template:
    cdef public dict constants
    cdef public dict varying
    cdef public dict plans

cdef class Form:
    cdef tuple _constant
    cdef dict _varying
    cdef dict _templates
    cdef dict _last

    @cython.locals(last=tuple)
    cpdef Template template(self, tuple constants)
