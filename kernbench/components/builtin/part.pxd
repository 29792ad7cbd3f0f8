cimport cython

from kernbench.components.base cimport Clock, Typed
from kernbench.components.builtin.flight cimport Flight

cdef class Serving(Typed):
    cdef public int kind_of_engine
    cdef public long long base
    cdef public tuple engines
    cdef public Clock clock
    cdef public list load
    cdef public long long next_due

    cpdef int choose(self) except -1

    cpdef ended(self, Flight flight)
