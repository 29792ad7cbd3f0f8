"""Cycles of one group of scratchpads after another.

A group consists of scratchpads that transfers connect, their engines, and the resources on the routes of their jobs. Only the command queue
connects two groups: when a job ends, a job of another group may start. Each cycle is therefore run group by group, P3 to P7. While no such
job is left, a group runs ahead by itself up to the cycle in which the run stops, and issues the entries that wait for its own jobs. The
state of the group then stays in the near caches, instead of being loaded from memory at each of its events.

The lists and heaps of the group that is being run are in `Sim`, where the phases expect them; `group_enter` and `group_leave` move them
there and back. If a machine has only one group, its lists are always there.
"""
from kernbench_core.model.control cimport Control, Entry, control_release, control_settle, control_take
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.fast.horizon cimport find_horizons
from kernbench_core.fast.threads cimport next_early, threads_run
from kernbench_core.model.heap cimport timer_push
from kernbench_core.model.phases cimport share_next, submit_entry
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport DMA_TRANSFERRING, NONE, OP_DMA, cycle_t, int32_t, int64_t, slot_t


cdef void group_enter(Sim* s, Group* g) noexcept nogil:
    """Make this group the one that is being run."""
    s.member += g.first_spm
    s.n_member = g.n_spm
    s.touched += g.first_spm
    s.n_touched = g.n_touched
    s.horizon += g.first_tree
    s.leaves = g.leaves
    s.free_flow += g.first_flow
    s.n_free = g.n_free
    s.rejoin += g.first_flow
    s.n_rejoin = g.n_rejoin
    s.joins.item += g.first_flow
    s.joins.n = g.n_joins
    s.ends.item += 2 * g.first_compute
    s.ends.n = g.n_ends
    s.share.dirty += g.first_res
    s.share.n_dirty = g.n_dirty
    s.word = g.word
    s.words = g.words
    s.any_wanted = g.any_wanted


cdef void group_leave(Sim* s, Group* g) noexcept nogil:
    s.member -= g.first_spm
    s.touched -= g.first_spm
    g.n_touched = s.n_touched
    s.horizon -= g.first_tree
    s.free_flow -= g.first_flow
    g.n_free = s.n_free
    s.rejoin -= g.first_flow
    g.n_rejoin = s.n_rejoin
    s.joins.item -= g.first_flow
    g.n_joins = s.joins.n
    s.ends.item -= 2 * g.first_compute
    g.n_ends = s.ends.n
    s.share.dirty -= g.first_res
    g.n_dirty = s.share.n_dirty
    g.any_wanted = s.any_wanted
    s.n_rejoin = s.share.n_dirty = s.any_wanted = False


cdef cycle_t group_next(Sim* s, cycle_t at) noexcept nogil:
    """The next cycle, from `at` on, in which the group has an event that other groups can observe."""
    cdef cycle_t to
    if s.any_wanted or s.n_rejoin or s.share.n_dirty:
        return at
    find_horizons(s)
    to = share_next(s, s.horizon[1])
    if s.ends.n:
        to = min(to, s.ends.item[0].at)
    return max(to, at)


cdef void group_issue(Sim* s, int32_t first, cycle_t now) noexcept nogil:
    """P2 of a single group, after the `first` jobs that had ended before: issue the entries that waited for the other ended jobs."""
    cdef int32_t i
    control_release(&s.control, first)
    i = control_take(&s.control, now)
    while i >= 0:
        submit_entry(s, i, s.control.entry[i].number)
        timer_push(&s.groups.early, now, i)
        i = control_take(&s.control, now)


cdef void renumber(Sim* s, int32_t entry, int64_t seq) noexcept nogil:
    """Give a job the number that it has if all groups are run cycle by cycle together."""
    cdef Entry* e = &s.control.entry[entry]
    cdef DmaJob* j
    cdef slot_t flow
    e.number = seq
    if e.op != OP_DMA:
        return
    j = &s.dma_job[e.job]
    j.seq = seq
    flow = j.flows if j.state == DMA_TRANSFERRING else NONE
    while flow != NONE:
        s.share.flow[flow].job_seq = seq
        if s.share.flow[flow].left and not j.in_head:
            s.tie_break[flow].seq = seq << 20 | s.share.flow[flow].channel
        flow = s.share.flow[flow].sibling


cdef void group_run(Sim* s, int32_t k, cycle_t to) noexcept nogil:
    """The cycles of a group before `to`. Machines with several groups have nothing that ends a run early (fast/group_layout.pyx)."""
    cdef cycle_t at = max(s.groups.at[k], s.cycle)
    cdef bint several = to > s.cycle + 1
    cdef int32_t finished_before = s.control.n_finished
    group_enter(s, &s.groups.group[k])
    while at < to:
        if several and finished_before < s.control.n_finished:      # they ended in the cycle before
            group_issue(s, finished_before, at)
            finished_before = s.control.n_finished
        group_cycle(s, at)
        at += 1
        if not several or finished_before == s.control.n_finished:
            at = group_next(s, at)
    s.groups.at[k] = at
    group_leave(s, &s.groups.group[k])


cdef cycle_t groups_until(Sim* s, cycle_t limit) noexcept nogil:
    """After P2 of a cycle: the cycle before which the groups may run ahead."""
    cdef Control* q = &s.control
    if (q.tied or q.mmio != NULL or q.passed < q.n_barriers or q.width and q.submitted < s.n_dma_jobs + s.n_compute_jobs or s.trace != NULL
            or s.stops.start_of != NONE or s.stops.end_of != NONE or s.stops.on_stall or s.stops.on_conflict):
        return min(s.cycle + 1, limit)
    return limit


cdef void groups_run(Sim* s, cycle_t to) noexcept nogil:
    """The cycles of all groups before `to`."""
    cdef cycle_t last = s.cycle + 1
    cdef int32_t k, entry
    cdef int64_t seq = s.control.submitted
    if s.threads != NULL and to > s.cycle + 1 and s.shuffle == 0 and s.perturbed == NULL:
        threads_run(s, group_run, to)
    else:
        for k in range(s.groups.n):
            if s.groups.at[k] < to:
                group_run(s, k, to)
    if to > s.cycle + 1:
        if s.control.in_flight == 0:            # P2 handles the cycle in which the last job has ended
            for k in range(s.control.n_finished):
                last = max(last, s.control.entry[s.control.finished[k]].end)
            if last < to:
                to = last
                control_settle(&s.control, to + 1)
        control_settle(&s.control, to)
        while next_early(s, &entry):
            renumber(s, entry, seq)
            seq += 1
    s.cycle = to


cdef cycle_t groups_next(Sim* s, cycle_t limit) noexcept nogil:
    """The next cycle in which any group has an event."""
    cdef int32_t k
    for k in range(s.groups.n):
        limit = min(limit, s.groups.at[k])
    return max(limit, s.cycle)
