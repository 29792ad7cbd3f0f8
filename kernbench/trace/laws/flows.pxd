cimport cython

from kernbench.trace.laws.law cimport Flow, Job, Law
from kernbench.trace.laws.line cimport Line


cdef int _DRAM_START, _DRAM_END, _DRAM_SUSPEND, _DRAM_RESUME, _NOC_START, _NOC_END, _MEMORY_ACCESS, _SRAM_ACCESS
cdef int _STALL, _RESUME, _CONFLICT


cdef class Flows(Law):
    cpdef check(self, Line record, int event)

    @cython.locals(job=Job)
    cdef Job _job(self, Line record, object what)

    @cython.locals(job=Job, flow=Flow)
    cdef Flow _flow(self, Line record, object what)

    @cython.locals(job=Job)
    cdef _start(self, Line record)

    cdef _joins(self, Job job, Line record, bint bare)

    @cython.locals(flow=Flow)
    cdef _end(self, Line record)

    @cython.locals(flow=Flow)
    cdef _suspend(self, Line record)

    @cython.locals(flow=Flow)
    cdef _resume(self, Line record)

    @cython.locals(job=Job, flow=Flow)
    cdef _enter(self, Line record)

    @cython.locals(job=Job, flow=Flow)
    cdef _leave(self, Line record)

    @cython.locals(job=Job, flow=Flow)
    cdef _access(self, Line record)

    @cython.locals(job=Job)
    cdef _touch(self, Line record)

    @cython.locals(flow=Flow)
    cpdef close(self, Job job)

    cdef _ratio(self, Job job, object flows)

    cdef _add_up(self, Job job, object what, object found, object times)


@cython.locals(flow=Flow)
cdef _bytes_of_flows(Job job)


cdef class Waits(Law):
    cdef dict _open

    cpdef check(self, Line record, int event)

    cdef Job _job(self, Line record)

    @cython.locals(job=Job)
    cdef _stall(self, Line record)

    @cython.locals(job=Job)
    cdef _resume(self, Line record)

    cdef _conflict(self, Line record)

    cpdef close(self, Job job)
