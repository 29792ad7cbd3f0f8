"""Room for transfers between scratchpads that components submit: made on the first request, so other runs have none.

As with routes (model/routes.pyx), tables grow while the loop holds no pointer into them: inside a call of a component, or between two
cycles.
"""
from kernbench_core.model.bank cimport Requester, Spm, TieBreak
from kernbench_core.plugin.cycle_heap cimport clock_set
from kernbench_core.plugin.component_tables cimport Plugs
from kernbench_core.types cimport NEVER, int32_t, int64_t, slot_t, uint64_t

cdef enum:
    MOST = 1 << 20            # limit of requesters of one scratchpad


cdef int own_far_requesters(Sim* s, Arena a) except -1:
    """Give every flow a second requester, if the program did not need them already."""
    cdef int32_t near = s.n_flows + s.n_compute + s.n_component_requests, k
    a.own(<void**>&s.peer_transfers, s.n_spm, sizeof(int32_t))
    a.own(<void**>&s.peer_limit, s.n_spm, sizeof(int32_t))
    if s.far_requesters:
        return 0
    s.far_requesters = True
    a.grow(<void**>&s.requester, near + s.n_flows, sizeof(Requester))
    s.share.requester = s.requester
    a.grow(<void**>&s.tie_break, near + s.n_flows, sizeof(TieBreak))
    if s.mask_words > 1:
        a.grow(<void**>&s.mask, <size_t>(near + s.n_flows) * 2 * s.mask_words, sizeof(uint64_t))
    a.grow(<void**>&s.paired, s.n_spm, sizeof(int32_t))
    a.grow(<void**>&s.pair, s.n_flows, sizeof(slot_t))
    for k in range(near, near + s.n_flows):
        s.requester[k].next_at = s.requester[k].first_denied = s.requester[k].backpressure_at = NEVER
    return 0


cdef int widen(Spm* p, Arena a, int32_t requesters) except -1:
    cdef int32_t side
    p.requesters = requesters
    a.grow(<void**>&p.order, requesters, sizeof(slot_t))
    a.grow(<void**>&p.turn, requesters, sizeof(slot_t))
    a.grow(<void**>&p.requesting, requesters, sizeof(slot_t))
    a.grow(<void**>&p.lookahead.due, requesters + 1, sizeof(slot_t))
    for side in range(2):
        p.ports[side] = min(p.given[side], requesters)
        a.grow(<void**>&p.free[side], <size_t>p.ports[side] * p.words, sizeof(uint64_t))
    p.narrow = p.words == 1 and p.ports[0] <= 7 and p.ports[1] <= 7
    return 0


cdef int peers_open(Sim* s, Arena a, list room) except -1:
    """Make room for a number of additional requesters of other engines' flows at each scratchpad."""
    cdef int32_t k
    if len(room) != s.n_spm:
        raise ValueError(f"room at {len(room)} scratchpads: the machine has {s.n_spm}")
    for k in range(s.n_spm):
        if not 0 <= room[k] <= MOST - s.spm[k].requesters:
            raise ValueError(f"room for {room[k]} transfers more at scratchpad {k}: there is place for {MOST - s.spm[k].requesters}")
    if s.peer_transfers == NULL:
        own_far_requesters(s, a)
    s.routes.grown = True
    for k in range(s.n_spm):
        s.peer_limit[k] += <int32_t>room[k]
        if room[k]:
            widen(&s.spm[k], a, s.spm[k].requesters + <int32_t>room[k])
    return 0


cdef int peers_wake(Sim* s, int64_t component, int64_t at) except -1:
    """Let the component run in cycle `at`, unless it runs earlier."""
    cdef Plugs* p = s.plugs
    if p == NULL or not 0 <= component < p.n:
        raise ValueError(f"component {component} is none of the {s.n_plugs} of the machine")
    if at <= s.cycle:
        raise ValueError(f"component {component} is to run in cycle {at}, which is not after cycle {s.cycle}")
    if at < p.wakes.at[component]:
        clock_set(&p.wakes, <int32_t>component, at)
    return 0
