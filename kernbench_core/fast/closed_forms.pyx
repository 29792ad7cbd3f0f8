"""Closed forms for requesters that are never denied.

The progress then depends only on time, and it remains to count the requests to each bank. A flow requests every line once. Each stream of a
TE or VE does so too. A bank that several streams of an engine access in one cycle counts once. If streams share all banks or none, their
requests are counted in closed form; otherwise, one recurrence period of the banks is simulated cycle by cycle and multiplied.
"""
from libc.string cimport memset

from kernbench_core.fast.pair_conflict_free cimport pair_jump
from kernbench_core.fast.request_table cimport TABLE_CYCLES, RequestTable, requests_from
from kernbench_core.model.division cimport gcd, quotient
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.model.compute cimport Compute, ComputeJob, Stream, compute_seek, compute_want, sleep_idle, stream_lines, stream_next
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport Dram, Extent, cursor_advance, cursor_sync
from kernbench_core.model.flow cimport cap_carry, flow_want, settle_cursor
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.model.requester cimport activity_phase, body_over, flow_over
from kernbench_core.model.share.membership cimport Flow, flow_accrue, flow_next
from kernbench_core.model.sim cimport Sim, reads_of, writes_of
from kernbench_core.model.bank_counters cimport Tally, tally_done, tally_eight, tally_planes, tally_range, tally_times, tally_word
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    LONGEST_PERIOD = 256      # largest number of body cycles that are simulated to find a recurrence period of the banks
    SHORT = 32                # the same, if all cycles can be counted quickly
    FULL = 240                # counts of a tally before it is drained


cdef void jump_in_run(Flow* f, Spm* p, int64_t cycles) noexcept nogil:
    """Advance by `cycles` cycles in which the carry stays below the end of the run: every line that is reached is requested once."""
    cdef int64_t n
    flow_accrue(f, cycles)
    n = f.carry - f.piece * f.den
    if n < 0:
        return
    n = 1 + quotient(n, f.cost)
    tally_range(&p.grants, f.bank, n)
    f.requested = f.piece + (n - 1) * p.line
    f.carry -= f.requested * f.den
    f.left -= f.requested
    f.at.run_left -= f.requested
    f.bank = <int32_t>((f.bank + n) % p.banks)
    f.piece = p.line if f.at.run_left > p.line else f.at.run_left


cdef void tally_chunks(Tally* t, int64_t first, int64_t lines, int64_t hop, int64_t n) noexcept nogil:
    """Count `n` chunks of `lines` consecutive lines. The first chunk begins in bank `first`, each other one `hop` banks after the previous
    chunk; `hop` is smaller than the number of banks.

    The banks in which chunks begin repeat, so chunks that begin in the same bank are counted together.
    """
    cdef int64_t period = 1, bank = first + hop, rows = lines // t.banks, times, more, bank_of_line, k, _k, _l
    if rows:
        lines -= rows * t.banks
        for k in range(t.banks):
            t.count[k] += rows * n
    bank = bank - t.banks if bank >= t.banks else bank
    while bank != first and period < n:
        bank += hop
        bank = bank - t.banks if bank >= t.banks else bank
        period += 1
    times = n // period
    more = n - times * period                   # so many chunks of a period are counted once more
    for _k in range(period):
        bank_of_line = bank = first
        for _l in range(lines):
            t.count[bank_of_line] += times + (_k < more)
            bank_of_line = bank_of_line + 1 if bank_of_line + 1 < t.banks else 0
        bank += hop
        first = bank - t.banks if bank >= t.banks else bank


cdef nbytes_t jump_chunks(Flow* f, Spm* p, Dram* d, nbytes_t budget) noexcept nogil:
    """Advance a flow at the beginning of a chunk by whole chunks of the interleave, all except the last one that the budget covers. Returns
    the bytes of the chunks."""
    cdef int64_t period = d.interleave * d.channels, lines = d.interleave // p.line, hop = period // p.line % p.banks, n
    n = min(budget // d.interleave, (f.at.row_end - f.at.dram - d.interleave) // period + 1) - 1
    if n <= 0:
        return 0
    tally_chunks(&p.grants, f.bank, lines, hop, n)
    f.bank = <int32_t>((f.bank + n * hop) % p.banks)
    f.at.dram += n * period
    f.at.addr += n * period
    return n * d.interleave


cdef void jump_lines(Flow* f, Spm* p, Dram* d, Extent* x, int64_t cycles) noexcept nogil:
    """The same for a flow whose runs end with lines: it also advances over ends of runs, to the last byte."""
    cdef nbytes_t budget, step
    cdef int64_t n
    flow_accrue(f, cycles)
    budget = quotient(f.carry, f.den)
    if budget < f.left:
        if budget < f.piece:
            return
        budget = f.piece + (budget - f.piece) // p.line * p.line
    else:
        budget = f.left
    f.carry -= budget * f.den
    f.left -= budget
    while budget:
        if f.at.run_left == d.interleave and budget >= 2 * d.interleave:
            budget -= jump_chunks(f, p, d, budget)
        step = budget if budget < f.at.run_left else f.at.run_left
        n = 1 + (step - f.piece + p.line - 1) // p.line
        tally_range(&p.grants, f.bank, n)
        budget -= step
        if step < f.at.run_left:
            f.at.run_left -= step
            f.bank = <int32_t>((f.bank + n) % p.banks)
            f.piece = p.line if f.at.run_left > p.line else f.at.run_left
        else:
            cursor_sync(&f.at)
            cursor_advance(&f.at, d, x, f.channel, step)
            settle_cursor(f, p)
    cap_carry(f, p)


cdef bint whole_lines(Flow* f, Spm* p, Dram* d, Extent* x) noexcept nogil:
    """Whether every run begins with a line, and every run except the last ends with one."""
    return not p.blocked and x.rows == 1 and x.cached == NULL and f.at.shift % p.line == 0 and d.interleave % p.line == 0


cdef bint banks_differ(Spm* p, Dram* d, int64_t lines) noexcept nogil:
    """Whether no two of a number of consecutive lines of a flow are in the same bank, so that a request for them is not cut. Its runs are
    whole chunks of the interleave, with the chunks of the other channels between them."""
    cdef int64_t chunk = d.interleave // p.line, hop = chunk * (d.channels - 1), t, away
    if lines > p.banks:
        return False
    if hop == 0:
        return True
    for t in range(1, lines):
        away = t + t // chunk * hop
        if away % p.banks == 0 or (t % chunk and (away + hop) % p.banks == 0):
            return False
    return True


cdef inline int64_t most_lines(Flow* f, Spm* p, int64_t most) noexcept nogil:
    """The most lines of the flow's next requests, if `most` is more than the bytes that a cycle earns."""
    return (max(quotient(f.carry, f.den), p.line) + most) // p.line + 2


cdef inline int64_t cycles_in_64_bits(Flow* f) noexcept nogil:
    """The number of cycles that may be earned at once: they earn at most 2^61, so the carry stays below 2^63."""
    return (<int64_t>1 << 61) // f.num


cdef void flow_jump(Flow* f, Spm* p, Dram* memories, DmaJob* j, uint64_t* mask, int64_t cycles) noexcept nogil:
    """Advance a flow that cannot be denied: in closed form inside a run, and cycle by cycle where a request may cross the end of the
    run."""
    cdef int64_t k
    cdef int32_t w
    cdef Dram* d = &memories[j.memory]
    cdef Extent* x = &j.extent
    cdef int64_t most = quotient(f.num, f.den) + 1          # [B] that a cycle earns, plus one
    # A request is cut if two of its lines are in one bank. A cycle requests less than one line more than its rate; if these lines fit into
    # one row of banks, no request inside a run is cut.
    cdef bint uncut_in_run = not p.blocked and 2 + most // p.line < p.banks
    # No request is cut or ends inside a line, also where it crosses the end of a run, and no carry is lost to its limit.
    cdef bint whole = (uncut_in_run and f.carry < (p.row - most) * f.den and whole_lines(f, p, d, x)
                       and banks_differ(p, d, most_lines(f, p, most)))
    f.seen += cycles
    while cycles:
        k = min(cycles, cycles_in_64_bits(f))
        if whole:
            jump_lines(f, p, d, x, k)
            if f.left == 0:
                return
            cycles -= k
            continue
        k = min(k, quotient(f.at.run_left - 1 - quotient(f.carry, f.den), most)) if uncut_in_run else 0     # before the end of the run
        if k > 1:
            jump_in_run(f, p, k)
            cycles -= k
            continue
        cycles -= 1
        flow_accrue(f, 1)
        if flow_want(f, p, memories, j, mask):
            for w in range(p.words):
                tally_word(&p.grants, w, mask[w])
                mask[w] = 0
            tally_done(&p.grants, 1)
            f.left -= f.requested


cdef int32_t streams_to_count(Compute* e, Spm* p) noexcept nogil:
    """If each two streams access the same banks in every body cycle, or never a bank in common: a bit for each stream that must be counted,
    because it does not access the banks of an earlier stream. 0 if the streams may share some of their banks.

    The streams advance at the same speed. Tiles of a product often begin in the same bank.
    """
    cdef int64_t lines, away
    cdef int32_t k, j, counted = 1
    cdef Stream* a = &e.stream[0]
    cdef Stream* b
    lines = (a.per_cycle - 1) // p.line + 2             # most lines of one cycle, including a first line that began before
    if lines > p.banks:
        return 0
    for k in range(1, e.streams):
        b = &e.stream[k]
        if b.per_cycle != a.per_cycle or b.at != a.at or b.nbytes != a.nbytes:
            return 0
        for j in range(k):
            away = (b.line - e.stream[j].line) % p.banks
            away += p.banks if away < 0 else 0
            if away == 0:
                break
            if away < lines or p.banks - away < lines:
                return 0
        else:
            counted |= 1 << k
    return counted


cdef void move_streams(Compute* e, Spm* p, int64_t i, int64_t n, int32_t counted) noexcept nogil:
    """Move the streams from body cycle `i` to `i + n`, and count the requests of those with a bit in `counted`."""
    cdef Stream* t
    cdef int64_t lines
    cdef int32_t k
    for k in range(e.streams):
        t = &e.stream[k]
        lines = stream_lines(t, i + n - 1, p.line, p.line_shift)
        if counted >> k & 1:
            tally_range(&p.grants, t.line, lines)
        t.line = (t.line + lines) % p.banks
        if e.sparse:
            stream_next(t)


cdef int64_t recurrence_period(Compute* e, Spm* p, int64_t i, int64_t most) noexcept nogil:
    """The number of body cycles after which all streams have the same positions in lines and banks as now; 0 if this is more than `most`,
    or if a stream ends before."""
    cdef int64_t period = 1, each
    cdef int32_t k
    for k in range(e.streams):
        each = p.row // gcd(p.row, e.stream[k].per_cycle)
        period = period // gcd(period, each) * each
        if period > most or e.stream[k].at < i * e.stream[k].per_cycle:
            return 0
    return period


cdef int64_t jump_periods(Compute* e, Spm* p, int64_t i, int64_t n, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Count whole recurrence periods of the `n` body cycles from `i` on and advance past them; return the number of these body cycles."""
    cdef int64_t period = recurrence_period(e, p, i, SHORT if e.dense else LONGEST_PERIOD) if p.narrow else 0, times, _k
    cdef int32_t k
    for k in range(e.streams):
        n = min(n, e.stream[k].nbytes // e.stream[k].per_cycle - i)
    if period == 0 or n < 2 * period:
        return 0
    times = n // period
    for _k in range(period):
        if compute_want(e, p, reads, writes):
            tally_times(&p.grants, reads[0] | writes[0], times)
            reads[0] = 0
            writes[0] = 0
        e.body_left -= 1
    e.body_left += period
    if times > 1:
        move_streams(e, p, i + period, (times - 1) * period, 0)
    return times * period


cdef int64_t jump_body(Compute* e, Spm* p, int64_t n, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Advance past many of the next `n` body cycles at once; return their number."""
    cdef int64_t i = e.body - e.body_left
    cdef int32_t counted = streams_to_count(e, p)
    if counted:
        move_streams(e, p, i, n, counted)
        return n
    return jump_periods(e, p, i, n, reads, writes)


cdef cycle_t compute_jump(Compute* e, Spm* p, uint64_t* reads, uint64_t* writes, cycle_t at, cycle_t end) noexcept nogil:
    """Body cycles from `at` on and before cycle `end` that cannot be denied; returns the cycle of the next body cycle, or of the last one
    if the body is done."""
    cdef int32_t w, tries = 0 if p.blocked else 2           # the first body cycle may differ from the others
    cdef int64_t n
    while at < end:
        n = min(e.body_left, (end - at + e.period - 1) // e.period)
        if tries and n > 2:
            tries -= 1
            n = jump_body(e, p, n, reads, writes)
            if n:
                e.idle = 0
                e.body_left -= n
                at += n * e.period
                if e.body_left == 0:
                    return at - e.period
                continue
        if compute_want(e, p, reads, writes):
            for w in range(p.words):
                tally_word(&p.grants, w, reads[w] | writes[w])
                reads[w] = 0
                writes[w] = 0
            tally_done(&p.grants, 1)
        e.body_left -= 1
        if e.body_left == 0:
            break
        at += (1 + sleep_idle(e)) * e.period
    return at


cdef void count_ahead(Compute* e, RequestTable* x, ComputeJob* jobs, Spm* p, int64_t n, Tally* t) noexcept nogil:
    """Count the requests of the next `n` body cycles, which are computed many at a time."""
    cdef cycle_t i = e.body - e.body_left
    cdef int64_t k, m
    cdef uint64_t* want
    while n:
        m = min(n, TABLE_CYCLES)
        want = requests_from(x, e, jobs, p, i, m)
        for k in range(m // 8):
            tally_eight(t, want + 8 * k)
        for k in range(m // 8 * 8, m):
            tally_word(t, 0, want[k])
            tally_done(t, 1)
        i += m
        n -= m


cdef int64_t count_periods(Compute* e, RequestTable* x, ComputeJob* jobs, Spm* p, int64_t n) noexcept nogil:
    """Count whole recurrence periods of the next `n` body cycles; return the number of these body cycles."""
    cdef cycle_t i = e.body - e.body_left
    cdef int64_t period = recurrence_period(e, p, i, FULL)
    cdef int32_t k
    cdef uint64_t[8] planes
    cdef Tally once                             # one period: never drained
    for k in range(e.streams):
        n = min(n, e.stream[k].nbytes // e.stream[k].per_cycle - i)
    if period == 0 or n < 2 * period:
        return 0
    memset(planes, 0, sizeof(planes))
    once.low = planes
    once.adds = 0
    count_ahead(e, x, jobs, p, period, &once)
    tally_planes(&p.grants, planes, n // period)
    return n // period * period


cdef cycle_t dense_jump(Compute* e, RequestTable* x, ComputeJob* jobs, Spm* p, cycle_t at, cycle_t end) noexcept nogil:
    """The same for a dense engine: it takes one cycle for each body cycle, and its streams need not be moved."""
    cdef int64_t n = min(e.body_left, end - at)
    cdef uint64_t reads = 0, writes = 0
    cdef int64_t many = 0
    if n > TABLE_CYCLES:
        compute_seek(e, jobs, p, e.body - e.body_left)
        many = jump_body(e, p, n, &reads, &writes)
        many = many if many else count_periods(e, x, jobs, p, n)
        e.body_left -= many
    count_ahead(e, x, jobs, p, n - many, &p.grants)
    e.body_left -= n - many
    return at + n if e.body_left else at + n - 1


cdef inline void jump_pair(Sim* s, Spm* p, slot_t requester, cycle_t to) noexcept nogil:
    """Move a flow between scratchpads, by its requester at this side, unless one of the two scratchpads is run cycle by cycle."""
    if requester < s.n_flows and p.lookahead.step == 0 and s.spm[s.requester[far_requester(s, requester)].spm].lookahead.step == 0:
        pair_jump(s, requester, to)


cdef bint closed_form_advance(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """P5 and P6 of the cycles before `to`, in which no request is denied, within the horizon of the scratchpad."""
    cdef int32_t k
    cdef slot_t requester
    cdef Requester* a
    cdef Compute* e
    cdef Flow* f
    if p.n_watch:
        activity_phase(s, p)
    for k in range(p.n_order):
        requester = p.order[k]
        a = &s.requester[requester]
        if a.compute:
            e = &s.compute[requester - s.n_flows]
            if e.body_left == 0 or a.next_at >= to:
                continue
            if e.dense:
                a.next_at = dense_jump(e, &s.ahead[requester - s.n_flows], s.compute_job, p, a.next_at, to)
            else:
                a.next_at = compute_jump(e, p, reads_of(s, requester), writes_of(s, requester), a.next_at, to)
            if e.body_left == 0:
                body_over(s, p, requester, a.next_at)
        elif a.paired:
            jump_pair(s, p, requester, to)
        elif a.next_at < to:
            f = &s.share.flow[requester]
            flow_jump(f, p, s.memory, &s.dma_job[f.job], reads_of(s, requester), to - f.seen)
            if f.left == 0:
                flow_over(s, requester)
            else:
                a.next_at = flow_next(f)
    p.done = to
    return True
