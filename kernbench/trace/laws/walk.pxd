cimport cython

from kernbench.trace.laws.law cimport Context, Order
from kernbench.trace.laws.line cimport Line
from kernbench.trace.laws.scan cimport Scan


cdef class Kind:
    cdef public dict phases
    cdef public list handlers


cdef class Walk:
    cdef readonly Py_ssize_t events
    cdef Context _context
    cdef Order _order
    cdef Scan _scan
    cdef list _closes
    cdef list _kinds

    @cython.locals(scan=Scan, size=Py_ssize_t, first=Py_ssize_t, after=Py_ssize_t)
    cpdef tuple plain(self, bytes block, Py_ssize_t at, Py_ssize_t number)

    @cython.locals(line=Line)
    cpdef other(self, object record, Py_ssize_t number)

    @cython.locals(context=Context, order=Order, kind=Kind, now="long long", phase=object)
    cdef _look(self, Line record, Py_ssize_t number)

    @cython.locals(context=Context)
    cpdef close(self)
