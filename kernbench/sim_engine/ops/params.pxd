cimport cython

cdef class Template:
    cdef public dict constants
    cdef public dict varying
    cdef public dict plans


@cython.no_gc
cdef class OpValues:
    cdef readonly object op_kind, op_name
    cdef readonly Template template
    cdef tuple _values
    cdef int _count
    cdef long long _first, _second, _third, _fourth
    cdef tuple _rest

    cdef put(self, tuple parts)

    cdef put_numbers(
        self, object op_kind, object op_name, Template template, int count, long long first, long long second, long long third,
        long long fourth, tuple rest)


cdef class Form:
    cdef tuple _constant
    cdef dict _varying
    cdef dict _templates
    cdef dict _last

    @cython.locals(last=tuple)
    cpdef Template template(self, tuple constants)
