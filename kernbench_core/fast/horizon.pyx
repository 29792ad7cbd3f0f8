"""The next cycle in which each scratchpad may have an event that other parts of the machine observe, and P5 and P6 of the scratchpads that
are due.

Before its horizon, the requesters of a scratchpad only make requests, wait and progress. The horizons are in a tree whose root is the
smallest.
"""
from kernbench_core.fast.block cimport first_due
from kernbench_core.fast.conflict_free cimport find_conflict_free
from kernbench_core.fast.fast_state cimport requests_changed
from kernbench_core.fast.lanes cimport stop_rolling, touch_lane
from kernbench_core.fast.pair_cycles cimport update_stepping, paired_cycle
from kernbench_core.fast.paths cimport CONFLICT_FREE_PATH, UNCONTENDED_PATH, paths, scratchpad_due, scratchpad_touch
from kernbench_core.fast.rolling cimport may_roll, roll
from kernbench_core.fast.uncontended cimport scratchpad_uncontended
from kernbench_core.model.arbiter.oldest_first cimport by_age
from kernbench_core.model.bank cimport BLOCK, BOUNDED_CYCLES, Requester, Spm
from kernbench_core.model.compute cimport Compute, on_period
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.model.share.membership cimport Flow, flow_cycles
from kernbench_core.plugin.component cimport component_flow_changed
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.types cimport NEVER, NONE, int32_t, int64_t, slot_t, uint64_t


cdef cycle_t earliest_end(Sim* s, slot_t requester) noexcept nogil:
    """The work of a requester ends in no earlier cycle, because a denial makes no requester faster."""
    cdef Requester* a = &s.requester[requester]
    cdef Compute* e
    cdef Flow* f
    if a.compute:
        e = &s.compute[requester - s.n_flows]
        if e.body_left < 2:
            return a.next_at if e.body_left else NEVER
        # A held request is served in any cycle; the body cycles after it follow the engine's period.
        return on_period(a.next_at + 1, e.period) + (e.body_left - 2) * e.period
    f = &s.share.flow[requester]
    if not f.member:                    # it can only have a held request
        return a.next_at if a.first_denied != NEVER and f.requested == f.left else NEVER
    if a.first_denied == NEVER:
        return f.seen + flow_cycles(f, f.left) - 1
    return a.next_at + flow_cycles(f, f.left - f.requested)


cdef inline int64_t grants_in_time(Spm* p) noexcept nogil:
    """The number of requests for one bank that are all granted before the first of them has been held for `backpressure_cycles`, and before
    it becomes aged; 0: not known."""
    cdef int64_t denials = min(p.backpressure, p.max_wait)
    if p.blocked or p.n_out or p.backpressure > BOUNDED_CYCLES or p.backpressure > p.max_wait + 1:
        return 0
    if p.penalty > 1:
        denials = (denials + p.penalty - 1) // p.penalty
    return denials * (min(p.ports[0], p.ports[1]) if p.split else p.ports[0])


cdef bint each_bank_avoided(Sim* s, Spm* p, int64_t by) noexcept nogil:
    """Whether in the next BOUNDED_CYCLES cycles, for every bank, at least `by` flows do not access the bank."""
    # For each bank, a count of such flows that begins at `4 - by`: bit `bank` of `at_least_k` says whether the count is at least k.
    cdef uint64_t at_least_1 = p.full if by < 4 else 0, at_least_2 = p.full if by < 3 else 0, at_least_3 = p.full if by < 2 else 0
    cdef uint64_t at_least_4 = 0, accessed, avoided
    cdef int32_t k
    cdef Requester* a
    cdef Flow* f
    if by > 4 or not p.narrow:
        return False
    for k in range(p.n_order):
        a = &s.requester[p.order[k]]
        if a.compute:
            break
        if a.rounds > 1:
            continue
        f = &s.share.flow[p.order[k]]
        accessed = f.span << f.bank | (f.span >> 1) >> (p.banks - 1 - f.bank)       # the span, rotated to the bank of the next line
        if a.first_denied != NEVER:
            accessed |= a.reads | a.writes
        avoided = p.full & ~accessed
        at_least_4 |= at_least_3 & avoided
        at_least_3 |= at_least_2 & avoided
        at_least_2 |= at_least_1 & avoided
        at_least_1 |= avoided
        if at_least_4 == p.full:
            return True
    return False


cdef inline cycle_t next_lookahead(Sim* s, Spm* p) noexcept nogil:
    """The cycle before which no look-ahead is made."""
    return max(p.lookahead.back_off - 1, p.done) if s.skip and p.lookahead.back_off > p.done else NEVER


cdef inline bint conflict_free(Sim* s, int32_t spm) noexcept nogil:
    """Whether a conflict-free horizon is in the future. False if the path is left out."""
    return paths & CONFLICT_FREE_PATH and find_conflict_free(s, spm)


cdef inline bint uncontended(Sim* s, int32_t spm) noexcept nogil:
    """Whether no request is denied while the requesters stay the same. False if the path is left out."""
    return paths & UNCONTENDED_PATH and scratchpad_uncontended(s, spm)


cdef cycle_t pair_next(Sim* s, int32_t spm) noexcept nogil:
    """The same with flows to or from other scratchpads, which may all be held when the conflict-free horizon is over."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t requester
    cdef Requester* a
    cdef cycle_t to
    if s.stops.on_conflict or not s.skip or not conflict_free(s, spm):
        return p.done
    to = p.lookahead.conflict_free - 1                            # a new look-ahead is made after it, before any request
    for k in range(p.n_order):
        requester = p.order[k]
        a = &s.requester[requester]
        if a.paired and requester >= s.n_flows:      # it ends with the requester at the other side
            continue
        if a.ends_at < to:
            a.ends_at = earliest_end(s, requester)
            to = min(to, a.ends_at)
    return max(to, p.done)


cdef cycle_t first_request(Sim* s, Spm* p) noexcept nogil:
    """No requester makes a request in an earlier cycle; NEVER: no request comes without another event."""
    cdef cycle_t at = NEVER
    cdef int32_t k
    for k in range(p.n_order):
        at = min(at, s.requester[p.order[k]].next_at)
    return at


cdef cycle_t scratchpad_next(Sim* s, int32_t spm) noexcept nogil:
    """The horizon: the first cycle that may have an event that other parts of the machine observe. Before this cycle, requesters only make
    requests, wait and progress.

    Three events are observed: the work of a requester ends, a held flow leaves its resources (backpressure), and a flow that has left
    them is served. Each requester has a bound for its own events. New backpressure is impossible if no request can be denied. Otherwise,
    a request may be denied as soon as one is made (`first_request_at`), and its flow leaves `backpressure_cycles` later (`pressed_at`),
    unless all requesters together need few enough ports of a bank (`excess` is not positive).
    """
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k, n_order = p.n_order, out = p.n_out
    cdef slot_t* order = p.order
    cdef cycle_t to = NEVER, pressed_at = NEVER, first_request_at = p.done
    cdef int64_t excess = 0                     # ports of a bank that the requesters may need, beyond those that they get in time
    cdef int64_t of_engines = 0                 # ports of a bank that TEs and VEs may need; their requests age, but get no backpressure
    cdef Requester* a
    p.lookahead.aging_bound = NEVER
    p.lookahead.rolls = False
    if p.n_order == 0 or s.share.devices != NULL and p.n_pairs == 0 and first_request(s, p) == NEVER:  # flows wait for their bursts
        return NEVER
    if s.stops.on_conflict or p.n_component_requests or p.n_pairs:
        return pair_next(s, spm) if p.n_pairs else p.done
    if s.trace != NULL and s.trace.level >= TRACE_FULL:
        to = p.done + BLOCK                     # limits the number of records
    if s.skip and uncontended(s, spm):
        pass
    elif may_roll(s, p):                        # which costs less than any look-ahead
        p.lookahead.rolls = True
        return NEVER
    elif s.skip and conflict_free(s, spm):
        to = min(to, p.lookahead.conflict_free)
    elif not by_age(p):                         # for other arbiters, only this is known: no requester leaves before the first request
        pressed_at = max(p.done, first_request(s, p)) + p.backpressure - 1
        to = min(to, pressed_at)
    else:
        if s.skip:
            first_request_at = max(first_request_at, min(first_due(s, p), NEVER >> 1))
        pressed_at = first_request_at + p.backpressure - 1
        to = min(to, max(pressed_at, first_request_at + BLOCK - 1), next_lookahead(s, p))
        excess = -grants_in_time(p)
    stop_rolling(s, p)
    for k in range(n_order):
        a = &s.requester[order[k]]
        excess += a.rounds
        if a.compute:
            of_engines += s.compute[order[k] - s.n_flows].often
        if a.ends_at < to:                      # the bound may have improved
            a.ends_at = earliest_end(s, order[k])
            to = min(to, a.ends_at)
        to = min(to, a.backpressure_at)
        if out and a.first_denied != NEVER and not a.compute and s.share.flow[order[k]].out:
            to = min(to, a.next_at)             # when it is served, it is a member again
    p.lookahead.aging_bound = p.done if excess + of_engines <= 0 else NEVER
    if excess > 0 and to > pressed_at:
        to = min(to, first_request_at + BOUNDED_CYCLES - 1) if each_bank_avoided(s, p, excess) else pressed_at
    return max(to, p.done)


cdef void touch_flow(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """The shares are about to change a flow (`Share.touch`)."""
    cdef Sim* s = <Sim*>sim
    if s.plugs != NULL and flow >= s.plugs.first_flow:
        component_flow_changed(s, flow)
    elif s.requester[flow].spm != NONE:         # else it is a queue of a cache, which makes no requests to a scratchpad
        scratchpad_touch(s, s.requester[flow].spm, now)
        # A flow that becomes a member can end an uncontended state, but cannot begin one.
        if not s.share.flow[flow].member and s.spm[s.requester[flow].spm].lookahead.uncontended:
            requests_changed(&s.spm[s.requester[flow].spm].lookahead)
        if s.n_spm == 1 and s.requester[flow].listed:
            touch_lane(s, flow)
        if s.requester[flow].paired:
            scratchpad_touch(s, s.requester[far_requester(s, flow)].spm, now)


cdef inline void set_horizon(Sim* s, int32_t spm, cycle_t at) noexcept nogil:
    """Set the horizon of one scratchpad, and update the tree above it."""
    cdef int32_t i = s.leaves + s.spm_position[spm]
    cdef cycle_t* tree = s.horizon
    tree[i] = at
    while i > 1:
        at = min(at, tree[i ^ 1])
        i >>= 1
        if tree[i] == at:
            return
        tree[i] = at


cdef void find_touched(Sim* s) noexcept nogil:
    """Compute the horizons of the scratchpads in `touched`."""
    cdef int32_t k, spm
    for k in range(s.n_touched):
        spm = s.touched[k]
        s.spm[spm].lookahead.touched = False
        set_horizon(s, spm, scratchpad_next(s, spm))
        if s.far_requesters:
            update_stepping(s, spm)
    s.n_touched = 0


cdef int32_t next_due(Sim* s, int32_t i, cycle_t now) noexcept nogil:
    """In the tree from node `i` on, without the nodes before it: the first scratchpad that is due, or 0."""
    while s.horizon[i] > now:
        while i & 1:                            # while it is the right child or the root: continue after its parent
            i >>= 1
        if i == 0:
            return 0
        i += 1
    while i < s.leaves:
        i = 2 * i + (s.horizon[2 * i] > now)
    return i


cdef void scratchpad_phase(Sim* s, cycle_t now) noexcept nogil:
    """P5 and P6 of the scratchpads that may have an event in this cycle; the others are run later, in longer blocks."""
    cdef int32_t i
    find_horizons(s)
    if s.n_paired:
        paired_cycle(s, now)
    i = next_due(s, 1, now)
    while i:
        scratchpad_due(s, s.member[i - s.leaves], now + 1)
        i = next_due(s, i + 1, now) if i + 1 < 2 * s.leaves else 0
    if s.n_spm == 1 and s.spm[0].lookahead.rolls:
        roll(s, &s.spm[0], now + 1)
