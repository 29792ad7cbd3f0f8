cimport cython

from kernbench.trace.laws.law cimport Law
from kernbench.trace.laws.line cimport Line


cdef class Counters(Law):
    cdef object _active, _members, _done
    cdef dict _joined, _links, _sizes, _waits
    cdef set _bare

    cdef _activity(self, object unit)

    cdef _over(self, object unit, object t_cycle)

    cdef _sum(self, object unit)

    cpdef _start(self, Line record)

    cpdef _end(self, Line record)

    cpdef _job_done(self, Line record)

    cpdef _stall(self, Line record)

    cpdef _resume(self, Line record)

    cpdef _join(self, Line record)

    cpdef _route(self, Line record)

    cdef bint _over_routers(self, object unit) except -1

    cpdef _suspend(self, Line record)

    cpdef _back(self, Line record)

    cpdef _leave(self, Line record)

    cpdef _leave_link(self, Line record)

    cpdef _written(self, Line record)

    cpdef _written_back(self, Line record)

    cdef _in(self, tuple key, object t_cycle)

    cdef _out(self, tuple key, object t_cycle)
