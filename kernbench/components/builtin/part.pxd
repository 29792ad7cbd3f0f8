cimport cython
from libc.stdint cimport int64_t

from kernbench.common.pe_ops cimport Command
from kernbench.components.base cimport Clock, Typed
from kernbench.components.builtin.flight cimport Flight

cdef class Serving(Typed):
    cdef public int kind_of_engine
    cdef public long long base
    cdef public tuple engines
    cdef public long long only_engine
    cdef public Clock clock
    cdef public list load
    cdef public long long next_due
    cdef bint _own_hooks
    cdef object _record
    cdef object _record_of
    cdef public dict replaced

    cpdef bint plan(self, Flight flight) except -1

    cpdef int64_t send(self, Typed processor, Flight flight) except? -1

    cpdef begin(self, Flight flight, long long now)

    cpdef deliver(self, long long now)

    cpdef look(self, long long cycle, object ring)

    @cython.locals(load=list, best=int, number=int)
    cpdef int choose(self) except -1

    cdef int count(self, Flight flight, int change) except -1

    cdef long long engine_of(self, Flight flight) except? -1

    @cython.locals(command=Command, clock=Clock)
    cpdef ended(self, Flight flight)

    cdef hooks_of(self, object component, Flight flight)
