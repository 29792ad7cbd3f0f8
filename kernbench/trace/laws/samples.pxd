cimport cython

from kernbench.trace.laws.law cimport Law
from kernbench.trace.laws.line cimport Line
from kernbench.trace.laws.sum cimport Sum


cdef int _BANDWIDTH, _ENGINE, _BANK, _QUEUE, _ENERGY
cdef double _FEW


cdef class Sampled:
    cdef Sum bytes, busy, member_cycles, backpressure, bank_conflict
    cdef list last


cdef class Samples(Law):
    cdef long long _window
    cdef dict _units, _banks, _scaled, _decimals
    cdef tuple _short, _room

    cpdef check(self, Line record, int event)

    @cython.locals(found=Sampled)
    cdef Sampled _fits(self, Line record, object unit, int kind)

    @cython.locals(cycles="long long")
    cdef _has_length(self, Line record)

    cdef _too_long(self, Line record, object used, object what)

    @cython.locals(sums=Sampled)
    cdef _bandwidth(self, Line record)

    @cython.locals(sums=Sampled, left="long long")
    cdef _engine(self, Line record)

    @cython.locals(requests=list, grants=list, denials=list, banks=Py_ssize_t, bank=Py_ssize_t, sums=dict)
    cdef _bank(self, Line record)

    cdef _queue(self, Line record)

    @cython.locals(sums=Sampled)
    cdef _compare(self, object unit, object kind, dict counters)

    cdef _energies(self, Line record)

    @cython.locals(value=double, scaled=double, digits=Py_ssize_t, whole="long long")
    cdef _energy(self, object part, object pj)


@cython.locals(known=Py_ssize_t, bank=Py_ssize_t)
cdef _add(list sums, list counts)
