cimport cython

from kernbench.trace.laws.law cimport Law
from kernbench.trace.laws.line cimport Line


cdef int _DMA_START, _TE_START, _VE_START, _DMA_END, _TE_END, _VE_END, _JOB_DONE, _STALL, _RESUME
cdef int _DRAM_START, _NOC_START, _DRAM_SUSPEND, _DRAM_RESUME, _DRAM_END, _NOC_END
cdef int _WRITE_BACK_START, _WRITE_BACK_END


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
    cdef set _bare, _untold

    cpdef check(self, Line record, int event)

    cdef Unit _unit(self, object name)

    cdef _start(self, Line record)

    @cython.locals(unit=Unit)
    cdef _end(self, Line record)

    @cython.locals(unit=Unit)
    cdef _job_done(self, Line record)

    cdef _stall(self, Line record)

    cdef _resume(self, Line record)

    @cython.locals(unit=Unit)
    cdef _join(self, Line record)

    @cython.locals(unit=Unit, flow=Member)
    cdef _route(self, Line record)

    cdef bint _over_routers(self, object unit) except -1

    cdef _suspend(self, Line record)

    cdef _back(self, Line record)

    cdef _leave(self, Line record)

    cdef _leave_link(self, Line record)

    @cython.locals(flow=Member)
    cdef _written(self, Line record)

    cdef _written_back(self, Line record)

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
