cimport cython

from kernbench.trace.laws.law cimport Flow, Job, Law
from kernbench.trace.laws.line cimport Line


cdef class Flows(Law):
    @cython.locals(job=Job)
    cdef Job _job(self, Line record, object what)

    @cython.locals(job=Job, flow=Flow)
    cdef Flow _flow(self, Line record, object what)

    @cython.locals(job=Job)
    cpdef _start(self, Line record)

    cdef _joins(self, Job job, Line record, bint bare)

    @cython.locals(flow=Flow)
    cpdef _end(self, Line record)

    @cython.locals(flow=Flow)
    cpdef _suspend(self, Line record)

    @cython.locals(flow=Flow)
    cpdef _resume(self, Line record)

    @cython.locals(job=Job, flow=Flow)
    cpdef _enter(self, Line record)

    @cython.locals(job=Job, flow=Flow)
    cpdef _leave(self, Line record)

    @cython.locals(job=Job, flow=Flow)
    cpdef _access(self, Line record)

    @cython.locals(job=Job)
    cpdef _touch(self, Line record)

    @cython.locals(flow=Flow)
    cpdef close(self, Job job)

    cdef _ratio(self, Job job, object flows)

    cdef _add_up(self, Job job, object what, object found, int times)


@cython.locals(flow=Flow)
cdef _bytes_of_flows(Job job)


cdef class Waits(Law):
    cdef dict _open

    cdef Job _job(self, Line record)

    @cython.locals(job=Job)
    cpdef _stall(self, Line record)

    @cython.locals(job=Job)
    cpdef _resume(self, Line record)

    cpdef _conflict(self, Line record)

    cpdef close(self, Job job)
