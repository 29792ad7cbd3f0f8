"""The data of fast paths about a scratchpad: how far it may be advanced. None of these data are model state, and no snapshot contains
them."""
from kernbench_core.types cimport NEVER, cycle_t, int32_t, slot_t, uint64_t

cdef struct Lookahead:
    bint recheck              # whether `uncontended` must be evaluated again: the model sets this (below)
    bint uncontended          # no bank can have more requesters than ports until the requesters change (fast/uncontended.pxd)
    bint touched              # whether its next event may have changed: its horizon must be computed again (fast/horizon.pyx)
    # aging bound: no request that is first denied in this cycle or later becomes aged, while nothing changes; NEVER: not known
    cycle_t aging_bound
    cycle_t conflict_free     # no request is denied in an earlier cycle, while nothing changes (fast/conflict_free.pyx)
    cycle_t back_off          # no look-ahead is made before this cycle
    int32_t back_offs         # number of consecutive look-aheads that found a near horizon
    cycle_t pair_back_off     # flows to other scratchpads: no look-ahead is made before this cycle (fast/pair_conflict_free.pyx)
    int32_t pair_back_offs    # flows to other scratchpads: number of consecutive look-aheads that found a near horizon
    cycle_t last_lookahead    # flows to other scratchpads: the cycle of the last look-ahead
    int32_t step  # 1 + its index among the scratchpads that are run cycle by cycle for their pairs; 0: none of them (fast/pair_cycles.pyx)
    bint rolls                # whether it is run up to its next event, so that it has no horizon (fast/rolling.pyx)
    bint has_lanes            # whether the requesters in the table of lanes have valid lanes; false after other code ran the scratchpad
    bint lacks_lanes          # whether requesters were added after the table of lanes was filled
    slot_t* due               # requesters that have work in a block, if one word has all banks (fast/block.pyx)
    uint64_t* denied          # masks of denials that are not counted yet, while the scratchpad is being simulated
    uint64_t[7] saved_denials  # copy of the masks in `denied`, while another scratchpad uses `Sim.denials`
    int32_t n_denied          # number of masks in `denied`

cdef inline void requests_changed(Lookahead* x) noexcept nogil:
    """A body is over, or the last held request was served."""
    x.recheck = True

cdef inline void requesters_changed(Lookahead* x) noexcept nogil:
    """A requester was inserted into the order."""
    x.recheck = x.lacks_lanes = True

cdef inline void requester_left(Lookahead* x) noexcept nogil:
    """A requester, which makes no more requests, was removed from the order."""
    x.recheck = True

cdef inline void forget(Lookahead* x) noexcept nogil:
    """Reset all data: a run begins or continues."""
    x.recheck = x.touched = True
    x.uncontended = x.rolls = x.has_lanes = False
    x.aging_bound = NEVER
    x.conflict_free = x.back_off = x.pair_back_off = x.last_lookahead = 0
    x.back_offs = x.pair_back_offs = x.step = x.n_denied = 0
