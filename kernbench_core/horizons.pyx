"""When each scratchpad may next bring an event that others see, and P5 and P6 of those whose time has come."""
from kernbench_core.component cimport component_flow_changed
from kernbench_core.pair cimport pair_turn, paired_cycle
from kernbench_core.pair_clear cimport far_lane
from kernbench_core.rolling cimport roll
from kernbench_core.scratchpad cimport scratchpad_due, scratchpad_touch
from kernbench_core.skip cimport scratchpad_next
from kernbench_core.types cimport NEVER, int32_t, slot_t


cdef void touch_flow(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """The shares are about to change a flow (`Share.touch`)."""
    cdef Sim* s = <Sim*>sim
    if s.plugs != NULL and flow >= s.plugs.first_flow:
        component_flow_changed(s, flow)
    else:
        scratchpad_touch(s, s.lane[flow].spm, now)
        if s.lane[flow].paired:
            scratchpad_touch(s, s.lane[far_lane(s, flow)].spm, now)


cdef void find_horizons(Sim* s) noexcept nogil:
    """Bring `horizon` and `soonest` up to date."""
    cdef int32_t k
    if s.n_touched == 0:
        return
    for k in range(s.n_touched):
        s.spm[s.touched[k]].touched = False
        s.horizon[s.touched[k]] = scratchpad_next(s, s.touched[k])
        if s.far_lanes:
            pair_turn(s, s.touched[k])
    s.n_touched = 0
    s.soonest = NEVER
    for k in range(s.n_member):
        if s.horizon[s.member[k]] < s.soonest:
            s.soonest = s.horizon[s.member[k]]


cdef void scratchpad_phase(Sim* s, cycle_t now) noexcept nogil:
    """P5 and P6 of those scratchpads that may bring an event in this cycle; the others come later, in longer blocks."""
    cdef int32_t k
    find_horizons(s)
    if s.n_paired:
        paired_cycle(s, now)
    if s.soonest <= now:
        for k in range(s.n_member):
            if s.horizon[s.member[k]] <= now:
                scratchpad_due(s, s.member[k], now + 1)
    if s.n_spm == 1 and s.spm[0].rolls:
        roll(s, &s.spm[0], now + 1)
