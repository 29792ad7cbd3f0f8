cimport cython

from kernbench.trace.laws.law cimport Context, Job, Law
from kernbench.trace.laws.line cimport Line


cdef int _END_BIT, _ENGINE_EVENT_BIT, _JOB_DONE_BIT
cdef int _CMD_ENQUEUE, _CMD_START, _CMD_END
cdef int _DMA_START, _TE_START, _VE_START, _DMA_END, _TE_END, _VE_END, _JOB_ISSUE, _JOB_DONE, _ENGINE_EVENT


cdef class States:
    cdef object _dense
    cdef dict _sparse
    cdef long long _limit, _size

    cdef put(self, long long key, int number)

    cdef Py_ssize_t get(self, long long key) except -2


cdef class Engine:
    cdef long long running, transfers
    cdef bint plugged, has_period, overlaps
    cdef object inside
    cdef dict on_channel


cdef class Commands(Law):
    cdef dict _units
    cdef States _states
    cdef object _enqueued

    cdef Py_ssize_t _unit(self, object name) except -1

    cpdef check(self, Line record, int event)

    cdef _enqueue(self, Line record)

    @cython.locals(state=Py_ssize_t)
    cdef _start(self, Line record)

    @cython.locals(state=Py_ssize_t)
    cdef _end(self, Line record)

    @cython.locals(state=Py_ssize_t)
    cdef _step(self, Line record, object does, int before, object expected)


cdef class Jobs(Law):
    cdef dict _engines, _limits
    cdef object _limit

    cdef Engine _engine(self, object unit)

    cpdef check(self, Line record, int event)

    @cython.locals(context=Context)
    cdef _issue(self, Line record)

    @cython.locals(job=Job)
    cdef Job _of(self, Line record, object what)

    @cython.locals(context=Context, job=Job, engine=Engine)
    cdef _start(self, Line record)

    cdef _transfer_starts(self, Line record, Engine engine)

    @cython.locals(context=Context, job=Job, engine=Engine, transfer=bint)
    cdef _end(self, Line record)

    cdef _drained(self, Line record, Engine engine)

    cdef _length(self, Line record, Job job, Engine engine)

    @cython.locals(cycles="long long")
    cdef _latency(self, Line record, long long since, object what)

    @cython.locals(job=Job)
    cdef _done(self, Line record)

    @cython.locals(job=Job)
    cdef _event(self, Line record)

    cdef _over(self, Job job, int bit, long long t_cycle)


cdef _named(Job job, object what)
