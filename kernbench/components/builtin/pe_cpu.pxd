cimport cython
from libc.stdint cimport int32_t, int64_t

from kernbench.components.base cimport Clock, Typed
from kernbench.components.builtin.flight cimport Flight
from kernbench.components.builtin.ipcq_ring cimport QueueClock
from kernbench.components.builtin.part cimport Serving
from kernbench.components.builtin.pe_scheduler cimport CommandQueue

cdef int64_t _NEVER

cdef class CommandSource:
    cdef public long long next_due

    cpdef bint resume(self, long long now) except -1

    cpdef bint ended(self, Flight flight) except -1

cdef class Processor(Typed):
    cdef public CommandSource source
    cdef public CommandQueue scheduler
    cdef QueueClock _time
    cdef list _done
    cdef long long _cycles
    cdef object _launch
    cdef long long _begin_at
    cdef long long _free_at
    cdef bint _resume
    cdef Clock _clock
    cdef bint _own_step, _own_accept
    cdef bint _own_notify, _own_hooks
    cdef object _record
    cdef object _record_of

    cdef bint refuses(self, int64_t now) except -1

    cdef int64_t woken(self, int64_t now) except? -1

    cdef int64_t told(self, int32_t notice, int64_t number, int64_t now) except? -1

    @cython.locals(scheduler=CommandQueue, source=CommandSource, due=int64_t, later=int64_t, queues=Serving, came="bint")
    cpdef int64_t step(self, int64_t now) except? -1

    @cython.locals(flight=Flight)
    cdef _received(self)

    @cython.locals(flight=Flight, part=Serving, end=int64_t)
    cpdef int64_t notify(self, int32_t notice, int64_t number, int64_t now) except? -1
