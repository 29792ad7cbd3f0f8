from kernbench.trace.laws.line cimport Line


cdef class Flow:
    cdef public object size, start, accessed
    cdef public bint bare, ended, out
    cdef public dict links


cdef class Job:
    cdef public object number, cmd, unit, kind, issued, job_type, channel, start, start_line, size, head, total, end, end_line
    cdef public object held, stalled, accessed
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
    cdef public Py_ssize_t line, most

    cpdef tuple ends_of_transfer(self, object unit, object direction)

    cpdef over(self, Job job, int bit)

    cpdef say(self, object law, object message, Py_ssize_t line=*)


cdef class Law:
    cdef public Context context

    cpdef close(self, Job job)


cdef class Order:
    cdef public Context context
    cdef public object phases
    cdef public long long t_cycle
    cdef public int phase
    cdef Py_ssize_t _level
    cdef set _fitting

    cpdef look(self, Line record)

    cdef _look_at_unit(self, Line record, object name, tuple what)

    cdef _place(self, Line record, object event)

    cdef _phase(self, Line record, object event)

    cdef _start(self, Line record, object name)

    cdef _end(self, Line record, object name)
