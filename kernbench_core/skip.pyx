"""Many cycles of a scratchpad at once.

The licence: no bank can have more askers than ports, so nothing is denied, every lane moves by itself, and each has a closed form
(or at least its own short loop). The horizon: up to the first cycle in which some lane may end its work; control, membership and
engines change in no earlier one.
"""
from kernbench_core.bank cimport Lane, Spm, bank_of, line_of, set_banks, set_run, take_ports
from kernbench_core.compute cimport Compute, compute_jump
from kernbench_core.dma cimport DmaJob
from kernbench_core.flow cimport flow_jump
from kernbench_core.lane cimport body_over, flow_over
from kernbench_core.scratchpad cimport open_ports
from kernbench_core.share cimport Flow, flow_cycles, flow_next
from kernbench_core.sim cimport Sim, reads_of, writes_of
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t


cdef void footprint(Spm* p, uint64_t* mask, nbytes_t addr, nbytes_t nbytes) noexcept nogil:
    """Add every bank that a range of the scratchpad touches."""
    cdef int64_t line = line_of(p, addr), last = line_of(p, addr + nbytes - 1)
    if p.blocked:
        set_run(mask, bank_of(p, line), bank_of(p, last) - bank_of(p, line) + 1)
    else:
        set_banks(p, mask, bank_of(p, line), last - line + 1)


cdef bint reserve(Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Take a port on each bank of the masks and clear them; false where some bank has none left."""
    cdef int32_t w
    cdef bint ok = True
    for w in range(p.words):
        if reads[w] & ~p.free[0][w]:
            ok = False
        take_ports(p.free[0], p.ports[0], p.words, w, reads[w])
        if p.split:
            if writes[w] & ~p.free[1][w]:
                ok = False
            take_ports(p.free[1], p.ports[1], p.words, w, writes[w])
        reads[w] = 0
        writes[w] = 0
    return ok


cdef bint scratchpad_uncontended(Sim* s, int32_t spm) noexcept nogil:
    """No bank can have more askers than ports, whatever cycle the lanes ask in: then nothing is ever denied."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k, i
    cdef slot_t lane
    cdef Compute* e
    cdef DmaJob* j
    cdef Flow* f
    cdef uint64_t* reads
    cdef uint64_t* writes
    cdef bint ok = True
    if not p.judge:
        return p.uncontended
    p.judge = False
    p.uncontended = False
    if p.n_held:
        return False
    open_ports(p)
    for k in range(p.n_order):
        lane = p.order[k]
        reads = reads_of(s, lane)
        writes = writes_of(s, lane)
        if s.lane[lane].compute:
            e = &s.compute[lane - s.n_flows]
            if e.body_left == 0:
                continue
            for i in range(s.compute_job[e.job].regions):
                footprint(p, writes if p.split and s.compute_job[e.job].region[i].write else reads,
                          s.compute_job[e.job].region[i].addr, s.compute_job[e.job].region[i].nbytes)
        else:
            f = &s.share.flow[lane]
            j = &s.dma_job[f.job]
            footprint(p, writes if s.lane[lane].to_writes else reads, f.at.addr, j.extent.spm_addr + j.nbytes - f.at.addr)
        ok = reserve(p, reads, writes) and ok
        if not ok:
            return False
    p.uncontended = True
    return True


cdef int64_t scratchpad_block(Sim* s, int32_t spm, cycle_t now, int64_t n) noexcept nogil:
    """At most `n` cycles from `now` on of which only the last may bring this scratchpad an event that others see.

    Waiting only delays the end of a lane's work, so what it could do undisturbed is a bound. A held flow may leave its resources,
    and one that has left may come back.
    """
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t lane
    cdef Lane* a
    cdef Compute* e
    cdef Flow* f
    cdef int64_t most
    if n > p.backpressure:
        n = p.backpressure
    for k in range(p.n_order):
        lane = p.order[k]
        a = &s.lane[lane]
        if a.compute:
            e = &s.compute[lane - s.n_flows]
            if e.body_left == 0:
                continue
            most = a.next_at - now + e.body_left
            if most < n:
                n = most
            continue
        f = &s.share.flow[lane]
        if a.first_denied != NEVER and f.out:
            most = a.next_at - now + 1
        elif a.first_denied != NEVER:
            most = a.next_at - now + 1 + flow_cycles(f, f.left - f.asked)
            if a.backpressure_at - now + 1 < most:
                most = a.backpressure_at - now + 1
        elif f.member:
            most = n
            if f.left >> 31 == 0 and (f.left - p.row) * f.den <= (n + now - f.seen) * f.num:
                most = flow_cycles(f, f.left) - (now - f.seen)
        else:
            continue
        if most < n:
            n = most if most > 1 else 1
    return n


cdef int64_t scratchpad_horizon(Sim* s, int32_t spm, cycle_t now, int64_t limit) noexcept nogil:
    """How many cycles from `now` on, at most `limit`, no lane can end its work before the last of."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t lane
    cdef Compute* e
    cdef Flow* f
    cdef int64_t n
    for k in range(p.n_order):
        lane = p.order[k]
        if s.lane[lane].compute:
            e = &s.compute[lane - s.n_flows]
            if e.body_left == 0:
                continue
            n = s.lane[lane].next_at + (e.body_left - 1) * e.period - now + 1
        else:
            f = &s.share.flow[lane]
            if not f.member:
                continue
            n = flow_cycles(f, f.left) - (now - f.seen)
        if n < limit:
            limit = n if n > 1 else 1
    return limit


cdef void scratchpad_jump(Sim* s, int32_t spm, cycle_t now, int64_t cycles) noexcept nogil:
    """P5 and P6 of `cycles` cycles of an uncontended scratchpad, within its horizon."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t lane
    cdef Lane* a
    cdef Compute* e
    cdef Flow* f
    p.soonest = 0                               # not kept here: the next walk finds it
    for k in range(p.n_order):
        lane = p.order[k]
        a = &s.lane[lane]
        if a.compute:
            e = &s.compute[lane - s.n_flows]
            if e.body_left == 0 or a.next_at >= now + cycles:
                continue
            a.next_at = compute_jump(e, p, reads_of(s, lane), writes_of(s, lane), a.next_at, now + cycles)
            if e.body_left == 0:
                body_over(s, p, lane, a.next_at)
        else:
            f = &s.share.flow[lane]
            if a.next_at >= now + cycles:
                continue
            flow_jump(f, p, &s.dram, &s.dma_job[f.job].extent, reads_of(s, lane), now + cycles - f.seen)
            if f.left == 0:
                flow_over(s, lane)
            else:
                a.next_at = flow_next(f)
