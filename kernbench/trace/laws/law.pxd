cimport cython

from kernbench.trace.laws.line cimport Line


cdef class Flow:
    cdef public long long size
    cdef public object accessed
    cdef public bint bare, ended, out
    cdef public dict links


cdef class Job:
    cdef public long long number, cmd, issued, channel, start, start_line, size, head, total, end, end_line, stalled
    cdef public object unit, kind, job_type, held, accessed
    cdef public tuple ends_in
    cdef public dict flows
    cdef public int waits, seen, missing


cpdef tuple ends_of(Job job)


cdef class Context:
    cdef public object meta, ratios, counts
    cdef public long long t_cycle
    cdef public bint full, partial, flits
    cdef public dict units, tracks, jobs
    cdef public set padded
    cdef public list closing, violations
    cdef list _recent
    cdef public Py_ssize_t line, most

    cpdef tuple ends_of_transfer(self, object unit, object direction)

    @cython.locals(found=Job)
    cdef Job job(self, long long number)

    cdef add(self, Job job)

    @cython.locals(found=Job)
    cdef remove(self, Job job)

    cpdef over(self, Job job, int bit)

    cpdef report(self, object law, object message, Py_ssize_t line=*)


cdef class Law:
    cdef public Context context

    cpdef check(self, Line record, int event)

    cpdef close(self, Job job)


cdef class Order:
    cdef public Context context
    cdef public object phases
    cdef public long long t_cycle
    cdef public int phase
    cdef Py_ssize_t _level

    cpdef check(self, Line record)

    @cython.locals(t_cycle="long long", phase=int)
    cpdef check_order(self, Line record)

    cdef int _phase(self, Line record, object event) except -1

    cdef int _start(self, Line record, object name) except -1

    cdef int _end(self, Line record, object name) except -1


cdef int _RECENT
