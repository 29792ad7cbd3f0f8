cimport cython

from kernbench.trace.laws.law cimport Law
from kernbench.trace.laws.line cimport Line


cdef class Unit:
    cdef object cycles, since, members, jobs, bytes, macs, ops, queue_full, priority_deferred
    cdef Py_ssize_t running

    cdef begin(self, object t_cycle)

    cdef end(self, object t_cycle)

    cdef until(self, object t_cycle)

    cdef waited(self, object reason, object cycles)


cdef class Member:
    cdef list units
    cdef object since


cdef class Counters(Law):
    cdef dict _units, _flows, _sizes, _waits
    cdef set _bare

    cdef Unit _unit(self, object name)

    cpdef _start(self, Line record)

    @cython.locals(unit=Unit)
    cpdef _end(self, Line record)

    @cython.locals(unit=Unit)
    cpdef _job_done(self, Line record)

    cpdef _stall(self, Line record)

    cpdef _resume(self, Line record)

    @cython.locals(unit=Unit)
    cpdef _join(self, Line record)

    @cython.locals(unit=Unit, flow=Member)
    cpdef _route(self, Line record)

    cdef bint _over_routers(self, object unit) except -1

    cpdef _suspend(self, Line record)

    cpdef _back(self, Line record)

    cpdef _leave(self, Line record)

    cpdef _leave_link(self, Line record)

    @cython.locals(flow=Member)
    cpdef _written(self, Line record)

    cpdef _written_back(self, Line record)

    @cython.locals(unit=Unit, flow=Member)
    cdef _in(self, tuple key, object t_cycle)

    @cython.locals(flow=Member)
    cdef _out(self, tuple key, object t_cycle)

    @cython.locals(flow=Member)
    cdef _gone(self, tuple key, object t_cycle)

    @cython.locals(unit=Unit)
    cdef _stops(self, Member flow, object t_cycle)

    @cython.locals(flow=Member, member_of=Unit, sums=Unit)
    cpdef finish(self, object end)

    @cython.locals(sums=Unit)
    cdef _engine(self, object unit, object kind, dict counters, object end)

    cdef _same(self, object unit, object key, dict counters, object found)
