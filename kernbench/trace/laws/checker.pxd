cimport cython

from kernbench.trace.laws.law cimport Context, Job, Law, Order
from kernbench.trace.laws.line cimport Line
from kernbench.trace.laws.scan cimport Scan


cdef class Check:
    cdef Law law
    cdef int event


cdef class Kind:
    cdef dict phases
    cdef list checks


cdef class Checker:
    cdef readonly Py_ssize_t events
    cdef Context _context
    cdef Order _order
    cdef Scan _scan
    cdef list _kinds, _laws

    @cython.locals(scan=Scan, size=Py_ssize_t, first=Py_ssize_t, after=Py_ssize_t)
    cpdef tuple plain(self, bytes block, Py_ssize_t at, Py_ssize_t number)

    @cython.locals(line=Line)
    cpdef other(self, object record, Py_ssize_t number)

    @cython.locals(context=Context, order=Order, kind=Kind, now="long long", phase=int, check=Check)
    cdef _look(self, Line record, Py_ssize_t number)

    @cython.locals(context=Context, job=Job, law=Law)
    cpdef close(self)
