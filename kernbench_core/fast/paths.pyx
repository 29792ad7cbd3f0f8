"""The table of fast paths, and the advance of a scratchpad through time.

A scratchpad may be behind the run's cycle until it may have an observable event, or is changed (`scratchpad_touch`). Each path advances the
scratchpad exactly as the model does, over as many cycles as its licence allows; cycles without a licensed path run in the model, one by
one. A path is removed by deleting its file and its line in `fast_path`.

To show that results do not depend on a path, KERNBENCH_WITHOUT lists paths, separated by commas, that are not used.
"""
from kernbench_core.fast.choices import chosen_paths, paths_without

from kernbench_core.fast.block cimport block_advance, block_can, first_due
from kernbench_core.fast.closed_forms cimport closed_form_advance
from kernbench_core.fast.conflict_free cimport conflict_free_can, invalidate_conflict_free
from kernbench_core.fast.lanes cimport stop_rolling
from kernbench_core.fast.speculative cimport speculative_advance, speculative_can
from kernbench_core.fast.uncontended cimport uncontended_can
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.compute cimport Compute, compute_seek
from kernbench_core.model.requester cimport activity_phase
from kernbench_core.model.scratchpad cimport progress_phase, requests_phase
from kernbench_core.model.sim cimport next_body_cycle
from kernbench_core.types cimport NEVER


def leave_out(*names):
    """Use all fast paths except the named ones from the next run on. ValueError for a name that is not a path."""
    global paths
    paths = paths_without(names)


paths = chosen_paths()


cdef inline bint fast_path(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Try the fast paths in order. Each path either runs at least one cycle before `to` and updates `Spm.done`, or returns false and has
    changed nothing."""
    if paths & UNCONTENDED_PATH and uncontended_can(s, p) and closed_form_advance(s, p, to):
        return True
    if paths & CONFLICT_FREE_PATH and conflict_free_can(p) and closed_form_advance(s, p, min(to, p.lookahead.conflict_free)):
        return True
    if paths & SPECULATIVE_PATH and speculative_can(p, to) and speculative_advance(s, p, to):
        return True
    return paths & BLOCK_PATH and block_can(p) and block_advance(s, p, to)


cdef void settle_dense(Sim* s, Spm* p) noexcept nogil:
    """Before a cycle of the model: move the streams of dense engines to the positions that the walks over blocks imply."""
    cdef int32_t k, c
    cdef Requester* a
    cdef Compute* e
    for k in range(p.n_order if p.narrow else 0):
        a = &s.requester[p.order[k]]
        c = p.order[k] - s.n_flows
        if 0 <= c < s.n_compute and a.next_at <= p.done and a.first_denied == NEVER:       # requests of components have no streams
            e = &s.compute[c]
            if e.dense:
                compute_seek(e, s.compute_job, p, next_body_cycle(s, c))


cdef void model_cycle(Sim* s, Spm* p) noexcept nogil:
    """Run one cycle in the model."""
    settle_dense(s, p)
    requests_phase(s, p, p.done)
    progress_phase(s, p, p.done)
    if p.n_watch:
        activity_phase(s, p)
    p.done += 1


cdef inline bint may_wait(Sim* s, Spm* p) noexcept nogil:
    """Whether the next cycle of the scratchpad, and all cycles up to the next one in which a requester is due, change nothing."""
    if not s.skip or s.noc != NULL or p.n_watch or p.n_component_requests or p.n_pairs:
        return False
    return first_due(s, p) > p.done


cdef void scratchpad_advance(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    """Run the cycles before `to` that have not been run; only the last may have an event."""
    cdef Spm* p = &s.spm[spm]
    stop_rolling(s, p)
    p.lookahead.has_lanes = False
    while p.done < to:
        if fast_path(s, p, to):
            continue
        if may_wait(s, p):
            p.done = min(to, first_due(s, p))
        else:
            model_cycle(s, p)


cdef inline void due(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    cdef Spm* p = &s.spm[spm]
    if p.done < to:
        scratchpad_advance(s, spm, to)
    if not p.lookahead.touched:
        p.lookahead.touched = True
        s.touched[s.n_touched] = spm
        s.n_touched += 1


cdef void scratchpad_due(Sim* s, int32_t spm, cycle_t to) noexcept nogil:
    """Run the cycles before `to`, and mark the horizon to be computed again."""
    due(s, spm, to)


cdef void scratchpad_touch(void* sim, int32_t spm, cycle_t now) noexcept nogil:
    """`Sim.changing`: before a scratchpad is changed in cycle `now`, its earlier cycles are run. Its horizon is marked to be computed
    again."""
    cdef Sim* s = <Sim*>sim
    due(s, spm, now)
    invalidate_conflict_free(s, &s.spm[spm], now)
