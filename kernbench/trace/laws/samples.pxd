cimport cython

from kernbench.trace.laws.law cimport Law
from kernbench.trace.laws.line cimport Line


cdef class Samples(Law):
    cdef object _window, _sums
    cdef dict _last, _banks, _whole, _decimals
    cdef tuple _short, _room

    cdef _fits(self, Line record, object unit)

    cdef _at_most(self, Line record, object used, object what)

    cpdef _bandwidth(self, Line record)

    cpdef _engine(self, Line record)

    @cython.locals(requests=list, grants=list, denials=list, banks=Py_ssize_t, bank=Py_ssize_t, sums=dict)
    cpdef _bank(self, Line record)

    @cython.locals(channels=Py_ssize_t, depth=Py_ssize_t)
    cpdef _queue(self, Line record)

    cpdef _energies(self, Line record)

    cdef _energy(self, object part, object pj)


@cython.locals(known=Py_ssize_t, bank=Py_ssize_t)
cdef _add(list sums, list counts)
