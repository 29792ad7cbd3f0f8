"""Refuses states that no run can have: the ValueError names the entry or engine, the value, and the required value.

These checks ensure that the data of a snapshot stay inside the tables, and that its counters obey the laws of docs/model/counters.md. They
do not check how a run reached its state.
"""
from libc.stdlib cimport calloc, free

from kernbench_core.model.bank cimport Requester, Spm, bank_of, line_of
from kernbench_core.model.compute cimport Compute, ComputeJob
from kernbench_core.model.control cimport Control, Entry
from kernbench_core.model.dma cimport DmaEngine, DmaJob
from kernbench_core.model.mmio cimport Mmio
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.dram.extent cimport Cursor, cursor_advance, cursor_open
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.model.share.membership cimport Flow, on_resources
from kernbench_core.model.sim cimport memory_of, reads_of, writes_of
from kernbench_core.types cimport (
    ABORTED, BACKPRESSURE, COMM, CONTROLLER_MODEL, DMA_TRANSFERRING, DONE, FAILED, MAX_MIN, NEVER, NONE, NOT_STALLED,
    OP_BARRIER, OP_COMPUTE, OP_DMA, OVERFLOW, OVERLAP_ERROR, RUNNING, int64_t, nbytes_t, uint64_t)

cdef bint is_job(Entry* e) noexcept nogil:
    return e.op == OP_DMA or e.op == OP_COMPUTE


cdef bint p2_is_over(Sim* s) noexcept nogil:
    """Whether the run ended in the middle of its cycle, after P2: entries that had ended before are complete."""
    return s.status != RUNNING and s.status != ABORTED


cdef int64_t entries_ended(Sim* s) noexcept nogil:
    cdef int64_t n = 0
    cdef int32_t k
    for k in range(s.control.n):
        n += s.control.entry[k].end != NEVER
    return n


cdef int check_status(Sim* s) except -1:
    """Check the status against the entries."""
    cdef bint over = entries_ended(s) == s.control.n
    if (s.status == FAILED) != (s.failed_entry != NONE):
        raise ValueError(f"status = {s.status} and failed_entry = {s.failed_entry}: a run that failed names its entry, no other does")
    if s.failed_entry != NONE and (s.overlap != OVERLAP_ERROR or not is_job(&s.control.entry[s.failed_entry])):
        raise ValueError(f"failed_entry = {s.failed_entry}: this run does not fail at an entry")
    if (s.status == OVERFLOW) != s.share.overflow or (s.share.overflow and s.share.rule != MAX_MIN):
        raise ValueError(f"status = {s.status} and overflow = {s.share.overflow}: both or none, and under max_min_v1 alone")
    if over != (s.status == DONE) and (s.status != RUNNING or s.cycle or s.control.n):
        raise ValueError(f"status = {s.status}, and {entries_ended(s)} of {s.control.n} entries have ended")
    if s.status == ABORTED and s.cycle < s.max_cycles:
        raise ValueError(f"the run was aborted in cycle {s.cycle}, before max_cycles = {s.max_cycles}")
    return 0


cdef int check_times(Sim* s, int32_t k) except -1:
    """Check the issue, start and end of one entry."""
    cdef Entry* e = &s.control.entry[k]
    cdef cycle_t last = s.cycle if p2_is_over(s) else s.cycle - 1
    if e.issue == NEVER:
        if e.start != NEVER or e.end != NEVER:
            raise ValueError(f"entry {k}: it starts or ends, and was not issued")
        return 0
    if not is_job(e):
        if e.start != e.issue or e.end != e.issue or e.issue > last:
            raise ValueError(f"entry {k}: issue, start and end are {e.issue}, {e.start}, {e.end}: of a control entry they are one cycle")
        return 0
    if e.issue > last or (e.start != NEVER and not e.issue <= e.start <= last):
        raise ValueError(f"entry {k}: issued in cycle {e.issue}, started in {e.start}: the run stands before cycle {s.cycle}")
    if e.end != NEVER and (e.start == NEVER or e.end <= e.start):
        raise ValueError(f"entry {k}: it ended in cycle {e.end}, and started in {e.start}")
    return 0


cdef int check_order(Sim* s) except -1:
    """Check that nothing is issued before its dependencies have ended, and that entries without waiting dependencies have been issued."""
    cdef Control* q = &s.control
    cdef int32_t k, i
    cdef cycle_t gate = 0, before = 0       # no entry after a barrier is issued before this cycle; the last end so far
    cdef Entry* e
    for k in range(q.n):
        e = &q.entry[k]
        if e.issue != NEVER and (e.issue < gate or (k == q.end and e.issue < before)):
            raise ValueError(f"entry {k}: issued in cycle {e.issue}, before what stands in front of it has ended")
        before = max(before, e.end)
        if e.op == OP_BARRIER:
            gate = max(gate, e.end)
        if e.issue == NEVER or e.end == NEVER:
            for i in range(e.after, q.entry[k + 1].after):
                if q.entry[q.dependents[i]].issue != NEVER:
                    raise ValueError(f"entry {q.dependents[i]}: it was issued, and waits for entry {k}, which has not ended")
            continue
        for i in range(e.after, q.entry[k + 1].after):
            if q.entry[q.dependents[i]].issue < e.end:
                raise ValueError(f"entry {q.dependents[i]}: it was issued before entry {k}, for which it waits, has ended")
    return 0


cdef int check_mmio(Sim* s) except -1:
    """Check that the host begins to write an entry when it is known, one entry after another, and that nothing is issued before it
    arrives."""
    cdef Control* q = &s.control
    cdef Mmio* h = q.mmio
    cdef int32_t k, i
    cdef cycle_t last = s.cycle if p2_is_over(s) else s.cycle - 1, begin
    if h == NULL:
        return 0
    begins = {}
    for k in range(q.n):
        if not h.written[k]:
            if h.arrival[k]:
                raise ValueError(f"entry {k}: arrival = {h.arrival[k]}: the host does not write it, so it is 0")
            continue
        if q.entry[k].issue != NEVER and q.entry[k].issue < h.arrival[k]:
            raise ValueError(f"entry {k}: issued in cycle {q.entry[k].issue}, before it arrives in cycle {h.arrival[k]}")
        if h.arrival[k] == NEVER:
            continue
        begin = h.arrival[k] - h.latency - h.write
        if not 0 <= begin <= last:
            raise ValueError(
                f"entry {k}: arrival = {h.arrival[k]}: its write would begin in cycle {begin}, and the run stands at {s.cycle}")
        if begin in begins:
            raise ValueError(f"entry {k}: arrival = {h.arrival[k]}: entry {begins[begin]} arrives in the same cycle")
        begins[begin] = k
    order = sorted(begins)
    for early, late in zip(order, order[1:]):
        if late - early < h.write:
            raise ValueError(f"entry {begins[late]}: its write begins in cycle {late}, in the write of entry {begins[early]}")
    for k in range(q.n):
        for i in range(q.entry[k].after, q.entry[k + 1].after if h.raises[k] else q.entry[k].after):
            begin = h.arrival[q.dependents[i]]
            if not h.written[q.dependents[i]] or begin == NEVER:
                continue
            begin -= h.latency + h.write
            if q.entry[k].end == NEVER or q.entry[k].end + h.interrupt > begin:
                raise ValueError(
                    f"entry {q.dependents[i]}: its write begins in cycle {begin}, before the host knows the interrupt of entry {k}")
    return 0


cdef int check_numbers(Sim* s, int32_t* by_number) except -1:
    """Check that jobs are numbered in the order of their issue; `by_number`: the entry of each number."""
    cdef Control* q = &s.control
    cdef int64_t k, n = 0
    cdef Entry* e
    for k in range(q.n):
        n += is_job(&q.entry[k]) and q.entry[k].issue != NEVER
    for k in range(n):
        by_number[k] = NONE
    for k in range(q.n):
        e = &q.entry[k]
        if not is_job(e) or e.issue == NEVER:
            if e.number:
                raise ValueError(f"entry {k}: number = {e.number}: it has none")
            continue
        if e.number >= n or by_number[e.number] != NONE:
            raise ValueError(f"entry {k}: number = {e.number}: {n} jobs were issued, and each has its own number below that")
        by_number[e.number] = <int32_t>k
    for k in range(1, n):
        if q.entry[by_number[k]].issue < q.entry[by_number[k - 1]].issue:
            raise ValueError(f"entry {by_number[k]}: number = {k}, and it was issued before number {k - 1}")
    return 0


cdef int check_entries(Sim* s, int32_t* by_number) except -1:
    cdef int32_t k
    for k in range(s.control.n):
        check_times(s, k)
    check_order(s)
    check_mmio(s)
    return check_numbers(s, by_number)


cdef int check_start(Sim* s, slot_t job) except -1:
    """Check the start of a transfer that was in its engine's queue and has started."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef DmaEngine* d = &s.dma[j.engine]
    cdef Entry* e = &s.control.entry[j.entry]
    if e.start % d.period:
        raise ValueError(f"entry {j.entry}: it starts in cycle {e.start}, which is not a multiple of the period of dma{j.engine}")
    if e.end == NEVER and (d.channel[j.channel].outstanding >= min(d.limit[j.channel].max_concurrent, d.queue_depth)
                           or (j.channel != COMM and d.active - d.channel[COMM].outstanding >= d.max_concurrent)):
        raise ValueError(f"entry {j.entry}: more transfers have started on dma{j.engine} than it works on at a time")
    return 0


cdef int check_stall(Sim* s, slot_t job) except -1:
    """Check the reason and the beginning of a job's stall."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef Entry* e = &s.control.entry[j.entry]
    cdef bint waits = e.issue != NEVER and e.start == NEVER
    if j.reason == NOT_STALLED and (j.stalled_at or j.pressed_channel != NONE):
        raise ValueError(f"entry {j.entry}: stalled_at = {j.stalled_at}, and it is not stalled")
    if j.reason != NOT_STALLED and not waits and (j.reason != BACKPRESSURE or j.state != DMA_TRANSFERRING):
        raise ValueError(f"entry {j.entry}: a stall of reason {j.reason}, which its state does not have")
    if waits and (j.reason == BACKPRESSURE or (j.reason != NOT_STALLED and not e.issue <= j.stalled_at <= s.cycle)):
        raise ValueError(f"entry {j.entry}: a stall of reason {j.reason} since cycle {j.stalled_at}, and it waits since {e.issue}")
    if j.state != DMA_TRANSFERRING or waits:
        return 0
    if (j.out > 0) != (j.reason == BACKPRESSURE) or (j.out and j.stalled_at < e.start):
        raise ValueError(f"entry {j.entry}: {j.out} of its flows are out for backpressure, and its stall is of reason {j.reason}")
    if j.live == 0 and not j.in_head:
        raise ValueError(f"entry {j.entry}: all bytes of its transfer have moved, and it has not ended")
    return 0


cdef int check_dma(Sim* s, int32_t engine) except -1:
    """Check the cycles of a DMA engine."""
    cdef DmaEngine* d = &s.dma[engine]
    if d.spent[0] + d.spent[1] + d.spent[2] + d.spent[3] != d.since:
        raise ValueError(f"dma{engine}: the cycles before {d.since} are counted as {d.spent[0]}, {d.spent[1]}, {d.spent[2]}, {d.spent[3]}")
    return 0


cdef bint has_banks(Sim* s, slot_t requester) noexcept nogil:
    cdef int32_t w
    for w in range(s.mask_words):
        if reads_of(s, requester)[w] | writes_of(s, requester)[w]:
            return True
    return False


cdef int check_flow(Sim* s, slot_t flow) except -1:
    """Check a flow of a started transfer: its position, its rate, and its possible membership."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Requester* a = &s.requester[flow]
    cdef bint held = a.first_denied != NEVER, own = not s.share.queues or f.bus == NONE
    cdef str who = f"entry {j.entry}, flow {f.channel}"
    if f.left > f.total or (j.in_head and f.left < f.total):
        raise ValueError(f"{who}: left = {f.left}: it has {f.total} bytes" + (", and is in its head latency" if j.in_head else ""))
    if f.left == 0 or j.in_head:
        if held or f.requested or f.carry or f.num or f.den != 1 or f.entered or f.member or f.out:
            raise ValueError(f"{who}: a flow that is not in flight asks for nothing and is a member of nothing")
    if f.requested > min(f.left, f.row):
        raise ValueError(f"{who}: requested = {f.requested}: it has {f.left} bytes left, and a request is for {f.row} at most")
    if f.den < 1 or f.carry > f.row * f.den:
        raise ValueError(f"{who}: carry = {f.carry} of 1/{f.den} bytes: it keeps {f.row} bytes at most")
    if (f.member and (not f.entered or (f.num == 0))) or (own and f.member != f.entered):
        raise ValueError(f"{who}: entered = {f.entered}, member = {f.member}, rate {f.num}/{f.den}")
    if f.out and (not held or f.entered):
        raise ValueError(f"{who}: out = 1: such a flow is held, and a member of nothing")
    if held and not f.out and not f.entered:
        raise ValueError(f"{who}: it is held, and neither entered nor out")
    if not held and (f.requested or has_banks(s, flow) or (j.peer != NONE and has_banks(s, far_requester(s, flow)))):
        raise ValueError(f"{who}: requested = {f.requested}: it is not held, and has no request")
    return 0


cdef bint within(Sim* s, slot_t requester, uint64_t* requested, bint writes) noexcept nogil:
    """Whether the banks that a requester lacks are among the banks that it requested, and on the right side."""
    cdef int32_t w
    cdef uint64_t* side = writes_of(s, requester) if writes else reads_of(s, requester)
    cdef uint64_t* other = reads_of(s, requester) if writes else writes_of(s, requester)
    for w in range(s.mask_words):
        if side[w] & ~requested[w] or other[w]:
            return False
    return True


cdef bint add_lines(uint64_t* mask, Spm* p, nbytes_t addr, nbytes_t nbytes) noexcept nogil:
    """Add the banks of bytes of one run; false if a bank would have two lines."""
    cdef int64_t line = line_of(p, addr), last = line_of(p, addr + nbytes - 1)
    cdef int32_t bank
    if last - line >= p.banks:
        return False
    while line <= last:
        bank = bank_of(p, line)
        if mask[bank >> 6] >> (bank & 63) & 1:
            return False
        mask[bank >> 6] |= <uint64_t>1 << (bank & 63)
        line += 1
    return True


cdef bint lines_asked(Sim* s, slot_t flow, uint64_t* near, uint64_t* far) noexcept nogil:
    """The banks of the request of a held flow; false if one request cannot be for these bytes."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Spm* p = &s.spm[s.dma_spm[j.engine]]
    cdef Cursor at
    cdef nbytes_t skip = f.total - f.left, left = f.requested, step
    cdef int64_t line = -1
    cursor_open(&at, memory_of(s, f.job), &j.extent, f.channel)
    while left:
        step = at.run_left
        if skip:
            step = min(step, skip)
            skip -= step
        else:
            step = min(step, left)
            if line_of(p, at.addr) == line:     # the line continues in the next run
                if line_of(p, at.addr + step - 1) != line:
                    step = (line + 1) * p.line - at.addr
            elif not add_lines(near, p, at.addr, step):
                return False
            line = line_of(p, at.addr + step - 1)
            if j.peer != NONE and not add_lines(far, &s.spm[j.peer], at.dram, step):
                return False
            left -= step
        cursor_advance(&at, memory_of(s, f.job), &j.extent, f.channel, step)
    return True


cdef int check_request(Sim* s, slot_t flow) except -1:
    """Check the request of a held flow that is past its head latency against the lines of its bytes."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef Spm* p = &s.spm[s.dma_spm[j.engine]]
    cdef Requester* a = &s.requester[flow]
    cdef str who = f"entry {j.entry}, flow {f.channel}"
    if a.first_denied == NEVER:
        if a.next_at != NEVER and a.next_at < s.cycle:
            raise ValueError(f"{who}: next_at = {a.next_at}: the run stands before cycle {s.cycle}")
        return 0
    if a.first_denied >= s.cycle or not s.cycle <= a.next_at < s.cycle + p.penalty:
        raise ValueError(
            f"{who}: first_denied = {a.first_denied}, next_at = {a.next_at}: it asks again within {p.penalty} cycles, from {s.cycle} on")
    if f.out == (a.first_denied + p.backpressure > s.cycle):
        raise ValueError(f"{who}: out = {f.out}: it is held since cycle {a.first_denied}, and leaves after {p.backpressure} cycles")
    if not f.requested:
        raise ValueError(f"{who}: requested = 0: it is held, and a request is for some bytes")
    if not has_banks(s, flow) and (j.peer == NONE or not has_banks(s, far_requester(s, flow))):
        raise ValueError(f"{who}: it is held, and lacks no bank")
    return check_lacking(s, flow, who)


cdef int check_lacking(Sim* s, slot_t flow, str who) except -1:
    """Check the missing banks of a held request against the banks of its bytes."""
    cdef DmaJob* j = &s.dma_job[s.share.flow[flow].job]
    cdef uint64_t* masks = <uint64_t*>calloc(2 * s.mask_words, sizeof(uint64_t))
    cdef uint64_t* far = masks + s.mask_words
    if masks == NULL:
        raise MemoryError("no memory to take up a snapshot")
    try:
        if not lines_asked(s, flow, masks, far):
            raise ValueError(f"{who}: requested = {s.share.flow[flow].requested}: these bytes have two lines on one bank")
        if not within(s, flow, masks, not j.write and s.spm[s.dma_spm[j.engine]].split) or (
                j.peer != NONE and not within(s, far_requester(s, flow), far, j.write and s.spm[j.peer].split)):
            raise ValueError(f"{who}: its request lacks banks that it did not ask for")
    finally:
        free(masks)
    return 0


cdef int check_idle(Sim* s, int32_t c) except -1:
    """Check a TE or VE that makes no requests, or such a part of its job."""
    cdef Requester* a = &s.requester[s.n_flows + c]
    if a.next_at != NEVER or a.first_denied != NEVER or has_banks(s, s.n_flows + c):
        raise ValueError(f"compute engine {c}: next_at = {a.next_at}, first_denied = {a.first_denied}: it asks for nothing now")
    return 0


cdef int check_compute(Sim* s, int32_t c, Known* known) except -1:
    """Check the fields of a TE or VE against its job."""
    cdef Compute* e = &s.compute[c]
    cdef ComputeJob* j
    if e.conflict > e.job_cycles + s.cycle or e.conflict_before > e.conflict:
        raise ValueError(f"compute engine {c}: conflict = {e.conflict}, conflict_before = {e.conflict_before}")
    if e.job == NONE or e.streams == 0:
        if e.body_left or e.done_at != known.done_at or (e.job == NONE and e.conflict_before):
            raise ValueError(f"compute engine {c}: body_left = {e.body_left}, done_at = {e.done_at}, and it follows from its job")
        check_idle(s, c)
        return check_work(s, c, known.work)
    j = &s.compute_job[e.job]
    if e.body_left > e.body or (e.body_left == 0) != (e.done_at != NEVER):
        raise ValueError(f"compute engine {c}: body_left = {e.body_left} of {e.body}, done_at = {e.done_at}")
    if e.body_left == 0:
        if e.done_at >= s.cycle + (j.finalize + 1) * e.period:
            raise ValueError(f"compute engine {c}: done_at = {e.done_at}: {j.finalize} cycles are left at most")
        check_idle(s, c)
    else:
        check_asking(s, c)
    return check_work(s, c, known.work)


cdef int check_asking(Sim* s, int32_t c) except -1:
    """Check a TE or VE in its body, or before it."""
    cdef Compute* e = &s.compute[c]
    cdef ComputeJob* j = &s.compute_job[e.job]
    cdef Spm* p = &s.spm[s.compute_spm[c]]
    cdef slot_t requester = s.n_flows + c
    cdef Requester* a = &s.requester[requester]
    cdef cycle_t begin = e.started + j.init * e.period
    cdef int32_t w
    if a.first_denied == NEVER:
        if has_banks(s, requester) or a.next_at == NEVER or a.next_at % e.period:
            raise ValueError(f"compute engine {c}: next_at = {a.next_at}: it is not held, and asks in a cycle of its period")
        if a.next_at < begin or a.next_at >= max(begin + 1, s.cycle + (e.body + 1) * e.period):
            raise ValueError(f"compute engine {c}: next_at = {a.next_at}: its body begins in cycle {begin}, and it has {e.body} cycles")
        return 0
    if not begin <= a.first_denied < s.cycle or not s.cycle <= a.next_at < s.cycle + p.penalty:
        raise ValueError(f"compute engine {c}: first_denied = {a.first_denied}, next_at = {a.next_at}: it asks again from {s.cycle} on")
    if not has_banks(s, requester):
        raise ValueError(f"compute engine {c}: it is held, and lacks no bank")
    for w in range(s.mask_words):
        if (reads_of(s, requester)[w] | writes_of(s, requester)[w]) & ~banks_word(p, w) or (not p.split and writes_of(s, requester)[w]):
            raise ValueError(f"compute engine {c}: its request lacks banks that the scratchpad does not have")
    return 0


cdef uint64_t banks_word(Spm* p, int32_t w) noexcept nogil:
    """One bit for each bank of the w-th word of a mask."""
    cdef int32_t n = p.banks - 64 * w
    if n <= 0:
        return 0
    return <uint64_t>-1 if n >= 64 else (<uint64_t>1 << n) - 1


cdef int64_t work_done(Sim* s, int32_t c) noexcept nogil:
    """Cycles of work done so far of the job of a TE or VE, up to the run's cycle."""
    cdef Compute* e = &s.compute[c]
    cdef ComputeJob* j = &s.compute_job[e.job]
    cdef Requester* a = &s.requester[s.n_flows + c]
    if e.streams == 0:
        return s.cycle - e.started
    if a.first_denied != NEVER:
        return j.init + e.body - e.body_left
    if e.body_left == 0:
        return j.init + e.body + j.finalize - (e.done_at + 1 - s.cycle)
    return j.init + e.body - e.body_left - (a.next_at - s.cycle)


cdef int check_work(Sim* s, int32_t c, int64_t done) except -1:
    """Check an engine that acts in every cycle: its busy cycles are its cycles of work, of which earlier jobs did `done`."""
    cdef Compute* e = &s.compute[c]
    cdef cycle_t denied = s.requester[s.n_flows + c].first_denied
    cdef int64_t busy = e.job_cycles - e.conflict
    if e.period != 1 or e.overlaps:             # jobs that overlap share cycles
        return 0
    if e.job != NONE:
        done += work_done(s, c)
        busy += (s.cycle if denied == NEVER else denied) - e.started
    if busy != done:
        raise ValueError(f"compute engine {c}: it was busy for {busy} cycles, and has done {done} cycles of work")
    return 0


cdef int check_bursts(Sim* s, int32_t k, int64_t given) except -1:
    """Check that the bytes that flows received from the channel of a controller are in bursts that were read, written, or queued for
    writing."""
    cdef Controllers* d = <Controllers*>s.share.devices
    cdef Channel* c = &d.channel[k]
    if given > (c.bursts + c.n[1] + c.n_active) * d.burst:
        raise ValueError(f"resource {k}: its flows have had {given} bytes of it, and its controller moved {c.bursts} bursts")
    return 0


cdef int check_shares(Sim* s, slot_t* live, int32_t n) except -1:
    """Check that flows have not moved, requested and kept more than their resources could give."""
    cdef int64_t* used = <int64_t*>calloc(s.share.n_res + 1, sizeof(int64_t))
    cdef Flow* f
    cdef int32_t k, h
    cdef int64_t given, busy
    cdef bint buffered = s.share.devices != NULL and s.share.rule == CONTROLLER_MODEL
    if used == NULL:
        raise MemoryError("no memory to take up a snapshot")
    try:
        for k in range(n):
            f = &s.share.flow[live[k]]
            for h in range(f.route.length if f.left else 0):
                given = on_resources(f, f.total - f.left + f.requested + f.carry // f.den)
                used[s.share.path[f.route.first + h]] += min(given, f.total) if buffered else given
        for k in range(s.share.n_res):
            given, busy = used[k] + s.share.res[k].bytes, s.share.res[k].busy
            if buffered and k < s.share.channels:
                check_bursts(s, k, given)
            elif given * s.share.res[k].den > busy * s.share.res[k].num:
                raise ValueError(f"resource {k}: its flows have had {given} bytes of it, and it was busy for {busy} cycles")
    finally:
        free(used)
    return 0
