"""What a job's start and end mean to those who wait for it: the command queue, the trace, the component that submitted it."""
from kernbench_core.abi cimport KB_JOB
from kernbench_core.overlap cimport overlap_ended, overlap_started
from kernbench_core.plug cimport Ghost, plug_tell
from kernbench_core.record cimport record_end, record_start
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t


cdef void entry_started(Sim* s, int32_t entry, cycle_t now) noexcept nogil:
    s.control.entry[entry].start = now
    if entry > s.control.n:
        return
    if s.trace != NULL:
        record_start(s, entry, now)
    overlap_started(s, entry)
    if entry == s.stops.start_of:
        s.stops.hit = True


cdef void entry_ended(Sim* s, int32_t entry, cycle_t end) noexcept nogil:
    cdef Ghost* g
    s.control.entry[entry].end = end
    if entry > s.control.n:                     # submitted by a component
        g = &s.plugs.ghost[entry - s.control.n - 1]
        plug_tell(s.plugs, g.by, KB_JOB, g.job.id)
        return
    if s.trace != NULL:
        record_end(s, entry, end)
    overlap_ended(s, entry)
    s.control.finished[s.control.n_finished] = entry
    s.control.n_finished += 1
    s.control.in_flight -= 1
    if entry == s.stops.end_of:
        s.stops.hit = True
