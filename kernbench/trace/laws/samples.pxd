cimport cython

from kernbench.trace.laws.law cimport Law
from kernbench.trace.laws.line cimport Line


cdef int _BANDWIDTH, _ENGINE, _BANK, _QUEUE, _ENERGY
cdef double _FEW


cdef class Sampled:
    cdef object bytes, busy, member_cycles, backpressure, bank_conflict
    cdef list last


cdef class Samples(Law):
    cdef object _window
    cdef dict _units, _banks, _scaled, _decimals
    cdef tuple _short, _room

    @cython.locals(found=Sampled)
    cdef Sampled _fits(self, Line record, object unit, int kind)

    cdef _has_length(self, Line record)

    cdef _at_most(self, Line record, object used, object what)

    @cython.locals(sums=Sampled)
    cpdef _bandwidth(self, Line record)

    @cython.locals(sums=Sampled)
    cpdef _engine(self, Line record)

    @cython.locals(requests=list, grants=list, denials=list, banks=Py_ssize_t, bank=Py_ssize_t, sums=dict)
    cpdef _bank(self, Line record)

    @cython.locals(channels=Py_ssize_t, depth=Py_ssize_t)
    cpdef _queue(self, Line record)

    @cython.locals(sums=Sampled)
    cdef _compare(self, object unit, object kind, dict counters)

    cpdef _energies(self, Line record)

    @cython.locals(value=double, scaled=double, digits=Py_ssize_t, whole="long long")
    cdef _energy(self, object part, object pj)


@cython.locals(known=Py_ssize_t, bank=Py_ssize_t)
cdef _add(list sums, list counts)
