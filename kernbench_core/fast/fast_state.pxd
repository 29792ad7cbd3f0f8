"""What fast paths know of a scratchpad: how far ahead it may be run. None of it is model state, and no snapshot holds it."""
from kernbench_core.types cimport NEVER, cycle_t, int32_t, slot_t, uint64_t

cdef struct Lookahead:
    bint judge                # `uncontended` is to be decided again: the model says when (below)
    bint uncontended          # no bank can have more askers than ports until requesters change (fast/uncontended.pxd)
    bint touched              # what it does next has changed: its horizon is to be found again (fast/horizon.pyx)
    cycle_t calm              # no request that is first denied from then on comes of age, while nothing changes; NEVER: not known
    cycle_t conflict_free     # no request is denied in an earlier cycle, while nothing changes (fast/conflict_free.pyx)
    cycle_t back_off          # no conflict-free horizon is looked for in an earlier cycle
    int32_t back_offs         # looks in a row that found the horizon to be near
    cycle_t pair_back_off     # the same of a scratchpad with flows to others (fast/pair_conflict_free.pyx)
    int32_t pair_back_offs    # looks in a row that found that horizon to be near
    cycle_t looked            # the cycle of the last such look
    int32_t step              # 1 + its place among those that are run cycle by cycle for their pairs; 0: it is none (fast/pair_cycles.pyx)
    bint rolls                # it is run up to its next event, so it has no horizon (fast/rolling.pyx)
    bint laid                 # its requesters stand on the wheel; until requesters change
    slot_t* due               # those with something to do in a block, where one word holds all banks (fast/block.pyx)
    uint64_t* denied          # masks of denials that are not counted yet, while it is walked over
    uint64_t[7] left          # and between two walks over it
    int32_t n_denied          # how many these are

cdef inline void requests_changed(Lookahead* x) noexcept nogil:
    """A body is over, or no request is held any more."""
    x.judge = True

cdef inline void requesters_changed(Lookahead* x) noexcept nogil:
    """A requester was put into the order, or taken out."""
    x.judge = True
    x.laid = False

cdef inline void forget(Lookahead* x) noexcept nogil:
    """Nothing is known: a run begins, or is taken up."""
    x.judge = x.touched = True
    x.uncontended = x.rolls = x.laid = False
    x.calm = NEVER
    x.conflict_free = x.back_off = x.pair_back_off = x.looked = 0
    x.back_offs = x.pair_back_offs = x.step = x.n_denied = 0
