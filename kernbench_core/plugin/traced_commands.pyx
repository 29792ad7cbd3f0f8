"""Jobs of components that are commands: in a trace they come after the entries of the queue, each with its own row.

Places of jobs are used again, but rows are not. A job without a description has no row and no events.
"""
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.control cimport Entry
from kernbench_core.plugin.component_tables cimport ComponentJob, slot_of
from kernbench_core.trace.record cimport record_submit
from kernbench_core.types cimport NEVER, NONE, OP_COMPUTE, OP_DMA


cdef int32_t command_of(Sim* s, int32_t entry) noexcept nogil:
    """The entry, or the row of a component's job; NONE if the job has no description."""
    return s.plugs.row[entry - s.control.n] if entry > s.control.n else entry


cdef int32_t place_of(Sim* s, int64_t id) except -1:
    """The place of a job that has not ended."""
    cdef int64_t g = slot_of(id) - s.control.n - 1
    if (id < 0 or not 0 <= g < s.n_component_jobs or s.plugs.component_job[g].job.id != id
            or s.control.entry[s.control.n + 1 + g].end != NEVER):
        raise ValueError(f"job {id} is none that a component has submitted and that is not over")
    return <int32_t>g


cdef tuple what_it_is(Sim* s, ComponentJob* g, Entry* e):
    """`(kind, engine, params, more)`: OP_DMA with its engine and (bytes, scratchpad address, memory), OP_COMPUTE with the engine's number
    among TEs, VEs and M_CPUs, or OP_COMPONENT."""
    cdef DmaJob* d
    cdef int32_t k
    params = tuple([g.job.params[k] for k in range(g.job.n_params)])
    if e.op == OP_DMA:
        d = &s.dma_job[e.job]
        return e.op, d.engine, params, (d.nbytes, d.extent.spm_addr, d.memory)
    if e.op == OP_COMPUTE:
        return e.op, s.compute_job[e.job].engine, params, ()
    return e.op, NONE, params, ()


cdef tuple describe_job(Sim* s, int64_t id, int32_t row):
    """Make the job the command of this row; return its description. ValueError if there is no such job."""
    cdef int32_t g
    if s.plugs == NULL:
        raise ValueError("there are no components")
    g = place_of(s, id)
    s.plugs.row[g + 1] = row
    if s.trace != NULL:
        record_submit(s, s.control.n + 1 + g)
    return what_it_is(s, &s.plugs.component_job[g], &s.control.entry[s.control.n + 1 + g])


cdef list open_jobs(Sim* s):
    """`(row, kind, engine, channel, issue, start)` of jobs of components that have not ended; the row is NONE without a description, and
    the start is NONE before it."""
    cdef int32_t k
    cdef Entry* e
    found = []
    for k in range(s.n_component_jobs):
        e = &s.control.entry[s.control.n + 1 + k]
        if s.plugs.component_job[k].job.id == 0 or e.end != NEVER:
            continue
        engine = channel = NONE
        if e.op == OP_DMA:
            engine, channel = s.dma_job[e.job].engine, s.dma_job[e.job].channel
        elif e.op == OP_COMPUTE:
            engine = s.compute_job[e.job].engine
        found.append((s.plugs.row[k + 1], e.op, engine, channel, e.issue, NONE if e.start == NEVER else e.start))
    return found


cdef tuple submitted_work(Sim* s):
    """`(MACs by bits of the weights, operations, bytes of streamed operands)` of jobs of components that have ended."""
    cdef int32_t k
    if s.plugs == NULL:
        return {}, 0, 0
    return {k: s.plugs.macs[k] for k in range(65) if s.plugs.macs[k]}, s.plugs.ops, s.plugs.streamed
