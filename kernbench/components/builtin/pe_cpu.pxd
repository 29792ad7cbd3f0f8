cimport cython

from kernbench.components.base cimport Clock, Typed
from kernbench.components.builtin.flight cimport Flight
from kernbench.components.builtin.ipcq_ring cimport QueueClock
from kernbench.components.builtin.part cimport Serving
from kernbench.components.builtin.pe_scheduler cimport CommandQueue

cdef class CommandSource:
    cdef public long long next_due

    cpdef bint resume(self, long long now) except -1

    cpdef bint ended(self, Flight flight) except -1

cdef class Processor(Typed):
    cdef public CommandSource source
    cdef public CommandQueue scheduler
    cdef QueueClock _time
    cdef long long _cycles
    cdef object _launch
    cdef long long _begin_at
    cdef long long _free_at
    cdef bint _resume
    cdef Clock _clock

    @cython.locals(scheduler=CommandQueue, source=CommandSource, due="long long", later="long long")
    cpdef step(self, long long now)

    @cython.locals(flight=Flight, part=Serving, end="long long")
    cpdef notify(self, int notice, object number, long long now)
