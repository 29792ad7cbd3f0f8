"""The loop of fast walks.

The loop runs P1 to P7 (docs/model/time_and_phases.md) like the plain loop. Scratchpads (P5 and P6) may be behind the loop: each has a
horizon before which it has no observable event. The scratchpad is run up to the loop's cycle when its horizon is reached, or when it is
changed. Skipping also omits cycles without any event outside of scratchpads, and advances a scratchpad in which no request can be denied in
closed form (fast/closed_forms.pyx).
"""
from libc.string cimport memset

from kernbench_core.fast.block cimport narrow_count
from kernbench_core.fast.conflict_free cimport save_back_offs, restore_back_offs
from kernbench_core.fast.group_layout cimport reset_horizons
from kernbench_core.fast.groups cimport groups_next, groups_run, groups_until
from kernbench_core.fast.horizon cimport find_horizons, scratchpad_phase, touch_flow
from kernbench_core.fast.lane_rates cimport set_lane_rates
from kernbench_core.fast.lanes cimport repace_lane
from kernbench_core.fast.pair_cycles cimport reset_stepping
from kernbench_core.fast.paths cimport scratchpad_advance, scratchpad_touch
from kernbench_core.fast.rolling cimport roll
from kernbench_core.model.compute cimport compute_seek
from kernbench_core.model.dram.models cimport dram_still
from kernbench_core.model.loop cimport begin_cycle, end_cycle, goes_on, only_components_wait, pending, start_and_share
from kernbench_core.model.sim cimport next_body_cycle
from kernbench_core.plugin.component cimport component_next
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.types cimport CHANNELS, DEADLOCK, NEVER, NONE, RUNNING, SHARED_BW, int32_t, int64_t


cdef cycle_t first_event(Sim* s) noexcept nogil:
    """If nothing is `pending`: the first cycle in which anything may happen; NEVER if nothing ever can. A refresh of DRAM for which no
    transfer waits does not count."""
    cdef cycle_t to
    if s.groups.n > 1:
        return groups_next(s, s.control.mmio_at)
    find_horizons(s)
    to = min(s.horizon[1], s.control.mmio_at)
    if s.n_spm == 1 and s.spm[0].lookahead.rolls:             # its horizon is that of the other parts (fast/rolling.pyx)
        to = min(to, NEVER - 1)
    if s.joins.n:
        to = min(to, s.joins.item[0].at)
    if s.ends.n:
        to = min(to, s.ends.item[0].at)
    if s.plugs != NULL:
        to = min(to, component_next(s.plugs))
    if s.caches != NULL:
        to = min(to, s.caches.next)
    if s.share.devices != NULL and (to != NEVER or not dram_still(&s.share)):
        to = min(to, s.share.devices_next)
    return to


cdef bint stuck(Sim* s) noexcept nogil:
    """After P2 of a cycle: jobs are in flight, and nothing can ever happen again."""
    if (s.share.n_dirty or s.caches != NULL or s.noc != NULL) and only_components_wait(s):
        return True
    if pending(s) or s.groups.n == 1 and (s.joins.n or s.ends.n):
        return False
    return first_event(s) == NEVER


cdef cycle_t next_cycle(Sim* s, cycle_t limit) noexcept nogil:
    """After a cycle: the next cycle with an observable event, or in which the run is found to be stuck."""
    cdef cycle_t at, to
    if pending(s):
        return s.cycle
    to = first_event(s)
    if to == NEVER:
        return s.cycle
    to = min(to, limit)
    if s.n_spm == 1 and s.spm[0].lookahead.rolls and to > s.cycle:
        at = roll(s, &s.spm[0], to)
        if at < to:
            end_cycle(s, at)
            return at + 1
    return max(to, s.cycle)


cdef inline bint rolls_on(Sim* s, cycle_t now) noexcept nogil:
    """After P4 of a cycle: whether only the scratchpad has work in P5 to P7, and rolls. `next_cycle` then runs this cycle together with the
    cycles after it."""
    if s.n_spm > 1 or s.caches != NULL or pending(s) or s.control.mmio_at <= now or s.ends.n and s.ends.item[0].at <= now:
        return False
    find_horizons(s)
    return s.spm[0].lookahead.rolls and s.horizon[1] > now


cdef bint equal_weights(Sim* s) noexcept nogil:
    """Whether all flows belong to DMA engines, and have the weight 1, so that flows of one route have one rate."""
    cdef int32_t k, j
    if s.share.rule != SHARED_BW or s.plugs != NULL or s.caches != NULL or not s.own_routes:
        return False
    for k in range(s.n_dma):
        for j in range(CHANNELS):
            if s.dma[k].limit[j].weight > 1:
                return False
    return True


cdef void begin_fast(Sim* s, bint skip) noexcept nogil:
    """A run continues. A snapshot may have been restored, so all data computed ahead are invalid."""
    cdef int32_t k
    s.skip = skip and (s.trace == NULL or s.trace.level < TRACE_FULL)       # a trace of requests needs every request
    s.share.touch = touch_flow
    if s.n_spm == 1:
        s.share.repace = repace_lane
        if equal_weights(s):
            s.share.set_rates = set_lane_rates
    s.share.whole = s.groups.n == 1
    s.share.sim = s
    s.changing = scratchpad_touch
    restore_back_offs(s)
    for k in range(s.n_compute):
        s.ahead[k].job = NONE


cdef void catch_up(Sim* s) noexcept nogil:
    """Before the state is read: run every scratchpad up to the run's cycle. No horizon is kept, so that equal states look the same."""
    cdef int32_t k
    for k in range(s.n_spm):
        scratchpad_advance(s, k, s.cycle)           # also stops rolling, even if the scratchpad has reached this cycle
        s.spm[k].lookahead.touched = True
        s.spm[k].lookahead.aging_bound = NEVER
        s.spm[k].lookahead.rolls = s.spm[k].lookahead.has_lanes = False
    for k in range(s.n_compute):
        if s.compute[k].dense and s.compute[k].job != NONE:
            compute_seek(&s.compute[k], s.compute_job, &s.spm[s.compute_spm[k]], next_body_cycle(s, k))
    reset_stepping(s)
    narrow_count(s)
    reset_horizons(s)
    save_back_offs(s)
    memset(&s.share.pace, 0, sizeof(s.share.pace))
    s.share.whole = False
    s.changing = NULL
    s.skip = False


cdef void run_fast(Sim* s, cycle_t limit, bint skip) noexcept nogil:
    """Run the cycles before `limit`."""
    cdef cycle_t now, end = min(limit, s.max_cycles)
    cdef int64_t denied = s.denied
    while goes_on(s, limit):
        now = s.cycle
        if not begin_cycle(s, now):
            break
        if stuck(s):
            s.status = DEADLOCK
            break
        if s.groups.n > 1:
            groups_run(s, groups_until(s, end))
        elif not start_and_share(s, now):
            break
        elif not (skip and rolls_on(s, now)):
            scratchpad_phase(s, now)
            end_cycle(s, now)
            s.cycle = now + 1
        if s.stops.on_conflict and s.denied != denied:
            s.stops.hit = True
        if skip and s.status == RUNNING:
            s.cycle = next_cycle(s, end)
