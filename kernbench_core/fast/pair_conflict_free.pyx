"""Flows between two scratchpads, while neither scratchpad denies a request of them.

Such a flow requests the same lines of both sides in the same cycle, and its requests follow from its own state until one is denied. Each
side therefore computes for itself how long no request can be denied there (fast/conflict_free.pyx), on the assumption that the flow
progresses. The flow does progress, unless the other side denies a request and notifies this side (model/pair.pyx). Denials of one
scratchpad do not affect unrelated scratchpads.

Within a conflict-free horizon of both sides, the flow is moved in closed form whenever its state is needed. For this purpose the flow has
its own clock, `Flow.seen`.
"""
from kernbench_core.model.division cimport quotient
from kernbench_core.model.bank cimport Requester, bank_of, line_of
from kernbench_core.model.pair_requesters cimport far_requester, flow_of
from kernbench_core.fast.future_requests cimport ALL, open_carry
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport cursor_advance, cursor_sync
from kernbench_core.model.requester cimport flow_over
from kernbench_core.model.share.membership cimport Flow, flow_next
from kernbench_core.model.sim cimport memory_of
from kernbench_core.model.bank_counters cimport tally_range
from kernbench_core.types cimport NEVER, int64_t, nbytes_t

cdef enum:
    FEW = 4                   # a conflict-free horizon of fewer cycles is not worth a look-ahead
    MANY = 16                 # a horizon of more cycles shows that look-aheads have gain
    TRIALS = 3                # limit of the doubling of the back-off, which is at most (1 << TRIALS) - 2 cycles


cdef bint whole(Flow* f, DmaJob* j, nbytes_t line) noexcept nogil:
    """Whether all its bytes, apart from the first line, are one run of whole lines."""
    return j.extent.rows == 1 and f.at.run_left == f.left and (f.left - f.piece) % line == 0


cdef bint open_pair(Sim* s, Spm* p, Course* x) noexcept nogil:
    """Set the course of a flow in this scratchpad; `x.requester` is its requester there on entry, and the flow afterwards. False if its
    requests may be cut."""
    cdef slot_t flow = flow_of(s, x.requester)
    cdef bint far = x.requester != flow
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    x.requester = flow
    pair_jump(s, flow, p.done)
    x.at = s.requester[flow].next_at
    if x.at == NEVER:
        return True
    if not whole(f, j, p.line):
        return False
    x.side = 1 if p.split and far == j.write else 0
    open_carry(x, f)
    cursor_sync(&f.at)
    x.bank = bank_of(p, line_of(p, f.at.dram if far else f.at.addr))
    x.lines = 1 + (f.left - f.piece) // p.line
    x.hop = ALL
    return quotient(max(x.carry, f.cost) + f.num, f.cost) + 2 <= p.banks


cdef bint pair_may_look_ahead(Spm* p) noexcept nogil:
    """Whether no conflict-free horizon is known from here on."""
    if p.lookahead.conflict_free:
        invalidate_pair_horizon(p, p.lookahead.conflict_free)
    return p.done >= p.lookahead.pair_back_off and not (p.n_held or p.n_out or p.n_component_requests or p.blocked or not p.narrow)


cdef void back_off(Spm* p, cycle_t now) noexcept nogil:
    """A look-ahead had no gain: make the next one later."""
    p.lookahead.pair_back_offs = min(p.lookahead.pair_back_offs + 1, TRIALS)
    p.lookahead.pair_back_off = now + (<int64_t>1 << p.lookahead.pair_back_offs) - 2


cdef bint set_pair_horizon(Spm* p, cycle_t clear) noexcept nogil:
    """A look-ahead found that no request is denied before this cycle; return whether the result has a gain."""
    if clear - p.done < FEW:
        p.lookahead.conflict_free = 0
        back_off(p, p.done)
        return False
    p.lookahead.conflict_free = clear
    p.lookahead.last_lookahead = p.done
    return True


cdef void invalidate_pair_horizon(Spm* p, cycle_t now) noexcept nogil:
    """The scratchpad is changed in cycle `now`: the conflict-free horizon is no longer valid."""
    if p.lookahead.conflict_free == 0:
        return
    now = min(now, p.lookahead.conflict_free)
    if now - p.lookahead.last_lookahead >= MANY:
        p.lookahead.pair_back_offs = 0
    elif now - p.lookahead.last_lookahead < FEW:
        back_off(p, now)
    p.lookahead.conflict_free = 0


cdef void pair_jump(Sim* s, slot_t flow, cycle_t to) noexcept nogil:
    """Move a flow that no side denies over the cycles before `to`; do nothing if it has reached them cycle by cycle."""
    cdef Requester* a = &s.requester[flow]
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Spm* near = &s.spm[a.spm]
    cdef Spm* far = &s.spm[s.requester[far_requester(s, flow)].spm]
    cdef nbytes_t budget
    cdef int64_t lines
    if a.next_at >= to or a.first_denied != NEVER:
        return
    f.carry += (to - f.seen) * f.num
    f.seen = to
    budget = quotient(f.carry, f.den)
    if budget >= f.left:
        budget = f.left
    elif budget >= f.piece:
        budget = f.piece + (budget - f.piece) // near.line * near.line
    else:
        budget = 0
    if budget:
        lines = 1 + (budget - f.piece + near.line - 1) // near.line
        cursor_sync(&f.at)
        tally_range(&near.grants, bank_of(near, line_of(near, f.at.addr)), lines)
        tally_range(&far.grants, bank_of(far, line_of(far, f.at.dram)), lines)
        f.carry -= budget * f.den
        f.left -= budget
        cursor_advance(&f.at, memory_of(s, f.job), &j.extent, f.channel, budget)
        f.piece = min(near.line, f.at.run_left)
    if f.left == 0:
        flow_over(s, flow)
    else:
        a.next_at = flow_next(f)
