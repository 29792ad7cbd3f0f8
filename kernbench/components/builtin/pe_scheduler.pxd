cimport cython

from kernbench.components.base cimport Typed
from kernbench.components.builtin.flight cimport Flight, OpenFlights
from kernbench.components.builtin.part cimport Serving

cdef long long _PLACE

cdef class CommandQueue(Typed):
    cdef public tuple parts
    cdef public Serving _tiles
    cdef public Serving queues
    cdef public Py_ssize_t queue_depth
    cdef public long long _cycles
    cdef public dict _serving
    cdef list _jobs
    cdef Py_ssize_t _in_core
    cdef public object _backlog
    cdef public Py_ssize_t places
    cdef Flight _first_due
    cdef Flight _last_due
    cdef public long long next_due
    cdef public tuple after
    cdef public long long visible
    cdef public OpenFlights open
    cdef public object machine
    cdef public object cores
    cdef public Typed processor

    @cython.locals(flight=Flight, part=Serving)
    cpdef Flight issue(self, object msg, long long now, object line)

    @cython.locals(flight=Flight, part=Serving)
    cpdef deliver(self, long long now)

    @cython.locals(next_due="long long", tiles="long long")
    cdef _look_ahead(self)

    @cython.locals(flight=Flight, part=Serving, place="Py_ssize_t")
    cpdef Flight job_ended(self, long long number, long long start, long long end)

    @cython.locals(part=Serving)
    cdef hand_over(self, Flight flight)

    @cython.locals(part=Serving)
    cpdef put(self, Flight flight, int engine, object orders)

    @cython.locals(part=Serving, number="long long")
    cdef _submit(self, Flight flight, object order)
