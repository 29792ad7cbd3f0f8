"""The table of fast paths, and a scratchpad through time.

A scratchpad runs behind the run's cycle until something that others see may happen in it, or is done to it (`scratchpad_touch`). Each path
advances it exactly as the model does, over as many cycles as it is licensed for; what none is licensed for runs in the model, cycle by
cycle. A path is removed by deleting its file and its line in `PATHS`.
"""
from kernbench_core.fast.block cimport block_advance, block_can
from kernbench_core.fast.conflict_free cimport clear_over
from kernbench_core.fast.skip cimport conflict_free_advance, conflict_free_can, uncontended_advance, uncontended_can
from kernbench_core.fast.speculative cimport speculative_advance, speculative_can
from kernbench_core.model.bank cimport Lane
from kernbench_core.model.compute cimport Compute, compute_seek
from kernbench_core.model.requester cimport activity_phase
from kernbench_core.model.scratchpad cimport progress_phase, requests_phase
from kernbench_core.model.sim cimport next_body_cycle
from kernbench_core.types cimport NEVER

cdef enum:
    N_PATHS = 4

cdef Path[N_PATHS] PATHS
PATHS[0] = Path("uncontended", uncontended_can, uncontended_advance)
PATHS[1] = Path("conflict_free", conflict_free_can, conflict_free_advance)
PATHS[2] = Path("speculative", speculative_can, speculative_advance)
PATHS[3] = Path("block", block_can, block_advance)


cdef void settle_dense(Sim* s, Spm* p) noexcept nogil:
    """Before a cycle of the model: streams of dense engines stand where walks over blocks left them."""
    cdef int32_t k, c
    cdef Lane* a
    cdef Compute* e
    for k in range(p.n_order if p.narrow else 0):
        a = &s.lane[p.order[k]]
        if a.compute and a.next_at <= p.done and a.first_denied == NEVER:
            c = p.order[k] - s.n_flows
            e = &s.compute[c]
            if e.dense:
                compute_seek(e, s.compute_job, p, next_body_cycle(s, c))


cdef void model_cycle(Sim* s, Spm* p) noexcept nogil:
    """One cycle of the model."""
    settle_dense(s, p)
    requests_phase(s, p, p.done)
    progress_phase(s, p, p.done)
    if p.n_watch:
        activity_phase(s, p)
    p.done += 1


cdef void scratchpad_advance(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    """Run the cycles before `to` that have not been run; only the last may bring an event."""
    cdef Spm* p = &s.spm[spm]
    cdef cycle_t begin
    cdef int32_t k
    p.laid = False
    while p.done < to:
        begin = p.done
        for k in range(N_PATHS):
            if PATHS[k].can(s, p, to):
                PATHS[k].advance(s, p, to)
                if p.done > begin:
                    break
        if p.done == begin:
            model_cycle(s, p)


cdef void scratchpad_due(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    """The cycles before `to` are run, and the horizon will be found again."""
    cdef Spm* p = &s.spm[spm]
    if p.done < to:
        scratchpad_advance(s, spm, to)
    if not p.touched:
        p.touched = True
        s.touched[s.n_touched] = spm
        s.n_touched += 1


cdef void scratchpad_touch(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """Before something is done to a scratchpad in cycle `now`: the cycles before it are run, and its horizon will be found again."""
    scratchpad_due(s, spm, now)
    clear_over(s, &s.spm[spm], now)


cdef void scratchpad_changing(void* sim, int32_t spm, cycle_t now) noexcept nogil:
    """`Sim.changing` of runs that use fast paths."""
    scratchpad_touch(<Sim*>sim, spm, now)
