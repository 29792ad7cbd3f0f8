"""When each scratchpad may next bring an event that others see, and P5 and P6 of those whose time has come."""
from kernbench_core.plugin.component cimport component_flow_changed
from kernbench_core.fast.pair_cycles cimport pair_turn, paired_cycle

from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.fast.rolling cimport roll
from kernbench_core.fast.paths cimport scratchpad_due, scratchpad_touch
from kernbench_core.fast.uncontended cimport scratchpad_next
from kernbench_core.types cimport NONE, int32_t, slot_t


cdef void touch_flow(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """The shares are about to change a flow (`Share.touch`)."""
    cdef Sim* s = <Sim*>sim
    if s.plugs != NULL and flow >= s.plugs.first_flow:
        component_flow_changed(s, flow)
    elif s.requester[flow].spm != NONE:         # else a queue of a cache, which asks no scratchpad
        scratchpad_touch(s, s.requester[flow].spm, now)
        if s.requester[flow].paired:
            scratchpad_touch(s, s.requester[far_requester(s, flow)].spm, now)


cdef inline void set_horizon(Sim* s, int32_t spm, cycle_t at) noexcept nogil:
    """Of one scratchpad, and of all above it in the tree."""
    cdef int32_t i = s.leaves + s.place[spm]
    cdef cycle_t* tree = s.horizon
    tree[i] = at
    while i > 1:
        at = min(at, tree[i ^ 1])
        i >>= 1
        if tree[i] == at:
            return
        tree[i] = at


cdef void find_horizons(Sim* s) noexcept nogil:
    """Bring `horizon` up to date."""
    cdef int32_t k, spm
    for k in range(s.n_touched):
        spm = s.touched[k]
        s.spm[spm].look.touched = False
        set_horizon(s, spm, scratchpad_next(s, spm))
        if s.far_requesters:
            pair_turn(s, spm)
    s.n_touched = 0


cdef int32_t next_due(Sim* s, int32_t i, cycle_t now) noexcept nogil:
    """In the tree from its node `i` on, without what stands before that: the first scratchpad whose time has come, or 0."""
    while s.horizon[i] > now:
        while i & 1:                            # the right one of two, or the root: on behind what is above it
            i >>= 1
        if i == 0:
            return 0
        i += 1
    while i < s.leaves:
        i = 2 * i + (s.horizon[2 * i] > now)
    return i


cdef void scratchpad_phase(Sim* s, cycle_t now) noexcept nogil:
    """P5 and P6 of those scratchpads that may bring an event in this cycle; the others come later, in longer blocks."""
    cdef int32_t i
    find_horizons(s)
    if s.n_paired:
        paired_cycle(s, now)
    i = next_due(s, 1, now)
    while i:
        scratchpad_due(s, s.member[i - s.leaves], now + 1)
        i = next_due(s, i + 1, now) if i + 1 < 2 * s.leaves else 0
    if s.n_spm == 1 and s.spm[0].look.rolls:
        roll(s, &s.spm[0], now + 1)
