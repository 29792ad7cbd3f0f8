"""Transfers between two scratchpads.

The flow of such a transfer is a requester of both scratchpads. In each cycle the flow requests the same lines of both
scratchpads, and each scratchpad arbitrates for itself. The bytes move when no bank is missing on either side. The request is
therefore formed before any bank is arbitrated, and it is judged after all banks are arbitrated.

The lines of both sides coincide, because addresses are multiples of the line and all scratchpads have the same line
(`kernbench` checks this).
"""
from kernbench_core.model.bank cimport Requester, Spm, bank_of, line_of, order_remove, requester_held
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport cursor_advance, cursor_sync
from kernbench_core.model.flow cimport cap_carry
from kernbench_core.model.noc.transfers cimport may_request_both
from kernbench_core.model.requester cimport flow_over, hold, press_later, unhold
from kernbench_core.model.share.membership cimport Flow, flow_accrue, next_request_cycle
from kernbench_core.model.sim cimport memory_of, reads_of, scratchpad_changes, writes_of
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.trace.record_requests cimport record_served
from kernbench_core.trace.record_request_notes cimport open_run
from kernbench_core.types cimport NEVER, int32_t, nbytes_t, uint64_t


cdef void pair_open(Sim* s, slot_t flow) noexcept nogil:
    """Insert both requesters of the flow into the order of their scratchpads."""
    cdef slot_t far = far_requester(s, flow)
    s.requester[flow].paired = True
    s.requester[far].paired = True
    s.spm[s.requester[flow].spm].n_pairs += 1
    s.spm[s.requester[far].spm].n_pairs += 1


cdef void leave(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """The scratchpad has one requester of this kind less."""
    scratchpad_changes(s, spm, now)
    s.spm[spm].n_pairs -= 1


cdef void pair_close(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """The flow's last byte has moved in the cycle before `now`: remove its far requester."""
    cdef slot_t far = far_requester(s, flow)
    order_remove(&s.spm[s.requester[far].spm], s.tie_break, far)
    leave(s, s.requester[flow].spm, now)
    leave(s, s.requester[far].spm, now)


cdef inline bint add_bank(uint64_t* mask, int32_t bank) noexcept nogil:
    """Add a bank; false if it is already in the mask."""
    cdef uint64_t bit = <uint64_t>1 << (bank & 63)
    if mask[bank >> 6] & bit:
        return False
    mask[bank >> 6] |= bit
    return True


cdef bint ask_both(Sim* s, slot_t flow, Spm* near, Spm* far) noexcept nogil:
    """Request the longest sequence of whole next lines that the carry covers and in which no bank of either side has two
    lines."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef uint64_t* here = reads_of(s, flow) if j.write or not near.split else writes_of(s, flow)
    cdef uint64_t* there = writes_of(s, far_requester(s, flow)) if j.write and far.split else reads_of(s, far_requester(s, flow))
    cdef nbytes_t requested = 0, size, budget = s.noc.at[flow].ejected - s.noc.at[flow].requested if s.noc != NULL else f.carry // f.den
    cdef int32_t bank, other
    cursor_sync(&f.at)
    while requested < f.left:
        size = min((line_of(near, f.at.addr + requested) + 1) * near.line - f.at.addr - requested, f.left - requested)
        if requested + size > budget:
            break
        bank = bank_of(near, line_of(near, f.at.addr + requested))
        other = bank_of(far, line_of(far, f.at.dram + requested))
        if (here[bank >> 6] >> (bank & 63) & 1) or not add_bank(there, other):
            break
        add_bank(here, bank)
        requested += size
    if requested == 0:
        return False
    f.requested = requested
    cursor_advance(&f.at, memory_of(s, f.job), &j.extent, f.channel, requested)
    f.piece = min(near.line, f.at.run_left)
    if s.noc != NULL:
        s.noc.at[flow].requested += requested
        return True
    f.carry -= requested * f.den
    cap_carry(f, near)
    return True


cdef void pair_request(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """P5, before any arbitration: form the request of the flow to both sides in this cycle, if any."""
    cdef Requester* a = &s.requester[flow]
    cdef Requester* b = &s.requester[far_requester(s, flow)]
    cdef Flow* f = &s.share.flow[flow]
    if s.noc != NULL and a.first_denied == NEVER:
        a.next_at = now if may_request_both(s, flow) else NEVER
    if a.next_at <= now and a.first_denied == NEVER:
        if s.trace != NULL and s.trace.level >= TRACE_FULL:
            open_run(&s.flow_trace[flow], f, f.at.run_left, f.bank)
        if s.noc == NULL:
            flow_accrue(f, now + 1 - f.seen)
            f.seen = now + 1
        if not ask_both(s, flow, &s.spm[a.spm], &s.spm[b.spm]):
            a.next_at = now + 1
    b.next_at = a.next_at


cdef void pair_decide(Sim* s, slot_t flow, cycle_t now) noexcept nogil:
    """P6, after both sides were arbitrated: move the bytes, or hold the flow."""
    cdef Requester* a = &s.requester[flow]
    cdef Requester* b = &s.requester[far_requester(s, flow)]
    cdef Spm* p = &s.spm[a.spm]
    cdef Flow* f = &s.share.flow[flow]
    if a.next_at <= now:
        if pair_lacks(s, flow):
            s.denied += 1
            a.next_at = now + p.penalty
            if a.first_denied == NEVER:
                hold(s, p, flow, now)
        else:
            if s.trace != NULL and s.trace.level >= TRACE_FULL:
                record_served(s, p, flow, a.first_denied, now)
            if a.first_denied != NEVER:
                unhold(s, p, flow, now)
            f.left -= f.requested
            if f.left == 0:
                flow_over(s, flow)
            else:
                a.next_at = next_request_cycle(&s.share, f) if f.member else NEVER
        requester_held(&s.spm[b.spm], b, a.first_denied)
    if a.backpressure_at <= now:
        press_later(s, flow)
