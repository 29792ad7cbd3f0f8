"""The effects of a job's start and end on the command queue, the trace, and the component that submitted the job."""
from kernbench_core.plugin.abi cimport KB_JOB
from kernbench_core.model.overlap cimport overlap_ended, overlap_started
from kernbench_core.model.compute cimport Compute, ComputeJob
from kernbench_core.plugin.component_tables cimport BITS, BITS_AT, MAX_BITS, ComponentJob, plug_notify
from kernbench_core.trace.record cimport record_end, record_start
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport OP_COMPUTE, TE, VE, cycle_t, int32_t, int64_t


cdef void entry_started(Sim* s, int32_t entry, cycle_t now) noexcept nogil:
    s.control.entry[entry].start = now
    if s.trace != NULL:
        record_start(s, entry, now)
    if entry > s.control.n:                     # submitted by a component
        return
    overlap_started(s, entry)
    if entry == s.stops.start_of:
        s.stops.hit = True


cdef void count_work(Sim* s, ComponentJob* g, ComputeJob* j) noexcept nogil:
    """Count the work of a component's job for its energy; the jobs of the command queue are known before the run."""
    cdef Compute* e = &s.compute[j.engine]
    cdef int64_t bits = g.job.params[BITS_AT] if g.job.n_params > BITS_AT else BITS
    cdef int32_t k
    if e.kind == TE:
        s.plugs.macs[bits if 0 < bits <= MAX_BITS else BITS] += j.work
    elif e.kind == VE:
        s.plugs.ops += j.work
    if e.traffic:
        for k in range(j.regions):
            s.plugs.streamed += j.region[k].nbytes


cdef void entry_ended(Sim* s, int32_t entry, cycle_t end) noexcept nogil:
    cdef ComponentJob* g
    s.control.entry[entry].end = end
    if s.trace != NULL:
        record_end(s, entry, end)
    if entry > s.control.n:                     # submitted by a component
        g = &s.plugs.component_job[entry - s.control.n - 1]
        if s.control.entry[entry].op == OP_COMPUTE:
            count_work(s, g, &s.compute_job[s.control.entry[entry].job])
        plug_notify(s.plugs, g.by, KB_JOB, g.job.id)
        return
    overlap_ended(s, entry)
    s.control.finished[s.control.n_finished] = entry
    s.control.n_finished += 1
    s.control.in_flight -= 1
    if entry == s.stops.end_of:
        s.stops.hit = True
