cimport cython

from kernbench.trace.laws.law cimport Context, Job, Law
from kernbench.trace.laws.line cimport Line


cdef class Commands(Law):
    cdef list _units
    cdef object _states, _enqueued

    cdef _unit(self, object name)

    cpdef _enqueue(self, Line record)

    cpdef _start(self, Line record)

    cpdef _end(self, Line record)

    cdef _step(self, Line record, object does, int before, object wanted)


cdef class Jobs(Law):
    cdef dict _running, _limits
    cdef object _transfers, _on_channel, _limit

    cpdef _issue(self, Line record)

    @cython.locals(job=Job)
    cdef Job _of(self, Line record, object what)

    @cython.locals(context=Context, job=Job)
    cpdef _start(self, Line record)

    cdef _transfer_starts(self, Line record)

    @cython.locals(context=Context, job=Job)
    cpdef _end(self, Line record)

    cdef _length(self, Line record, Job job)

    cdef _latency(self, Line record, object since, object what)

    @cython.locals(job=Job)
    cpdef _done(self, Line record)

    @cython.locals(job=Job)
    cpdef _event(self, Line record)

    cdef _over(self, Job job, object what, object t_cycle)


cdef _named(Job job, object what)
