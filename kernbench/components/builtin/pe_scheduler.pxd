cimport cython

from kernbench.components.base cimport Typed
from kernbench.components.builtin.flight cimport Flight
from kernbench.components.builtin.part cimport Serving

cdef class CommandQueue(Typed):
    cdef public tuple parts
    cdef public Serving _tiles
    cdef public Serving queues
    cdef public Py_ssize_t queue_depth
    cdef public long long _cycles
    cdef public dict _serving
    cdef public dict _jobs
    cdef public object _backlog
    cdef public Py_ssize_t places
    cdef public object _due
    cdef public long long next_due
    cdef public tuple after
    cdef public dict open
    cdef public object machine
    cdef public Typed processor

    @cython.locals(flight=Flight, part=Serving)
    cpdef Flight issue(self, object msg, long long now, object line)

    @cython.locals(flight=Flight, part=Serving)
    cpdef deliver(self, long long now)

    @cython.locals(next_due="long long", tiles="long long", due=object, first=Flight)
    cpdef _look_ahead(self)

    @cython.locals(flight=Flight, part=Serving)
    cpdef Flight job_ended(self, object number, long long start, long long end)

    @cython.locals(part=Serving)
    cpdef put(self, Flight flight, int engine, object orders)

    @cython.locals(part=Serving)
    cpdef _submit(self, Flight flight, object order)
