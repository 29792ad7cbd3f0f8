"""Records accesses, bank conflicts and waits for banks. docs/model/traces.md defines which events are written, and when."""
from kernbench_core.model.bank cimport Spm, bank_of, line_of, set_banks
from kernbench_core.model.compute cimport Compute, ComputeJob, Region, writes_to
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport cursor_advance
from kernbench_core.trace.events cimport (
    MISSING, REC_ACCESS, REC_CONFLICT, REC_FAR, REC_FAR_STALL, REC_MOVED, REC_RESUME, REC_RUN, REC_STALL, TRACE_ACCESS, TracedRequest,
    Event, FlowTrace, StreamTrace, Tracer, emit)
from kernbench_core.model.bank_mask cimport set_run
from kernbench_core.model.pair_requesters cimport far_requester
from kernbench_core.trace.record_request_notes cimport emit_moved, run_requested, streams_of
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.sim cimport flow_channel, memory_of
from kernbench_core.types cimport COMPONENT, DMA, MEMORY, NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil

cdef enum:
    BANK_CONFLICT = 4         # an additional reason, after those of StallReason
    CLIENTS = 7               # DMA, TE, VE: the kind of engine in a record of a conflict


cdef struct Source:              # whose request it is
    int32_t kind
    int32_t engine
    int64_t job
    int32_t entry
    int32_t channel           # DRAM channel of a flow, else -1


cdef Source source_of(Sim* s, slot_t requester) noexcept nogil:
    cdef Source w
    cdef Compute* e
    cdef Flow* f
    if requester >= s.n_flows + s.n_compute + s.n_component_requests:
        requester -= far_requester(s, 0)
    if requester < s.n_flows:
        f = &s.share.flow[requester]
        w.kind = DMA
        w.engine = f.engine
        w.job = f.job_seq
        w.entry = s.dma_job[f.job].entry
        w.channel = flow_channel(s, f)
    elif requester >= s.n_flows + s.n_compute:
        w.kind = COMPONENT
        w.engine = s.plugs.bank_request[requester - s.plugs.first_requester].by
        w.entry = s.control.n               # no entry: `emit` omits its records
        w.job = MISSING
        w.channel = -1
    else:
        e = &s.compute[requester - s.n_flows]
        w.kind = e.kind
        w.engine = e.id
        w.entry = s.compute_job[e.job].entry
        w.job = s.control.entry[w.entry].number
        w.channel = -1
    return w


cdef void emit_access(
        Sim* s, int32_t kind, Spm* p, Source w, nbytes_t addr, nbytes_t size, bint writes, bint conflict, cycle_t requested,
        cycle_t now) noexcept nogil:
    cdef Event* r = emit(s.trace, kind, now, 6, w.kind, w.engine, w.job, w.channel, 60, w.entry)
    if r:
        r.v[0] = w.job
        r.v[1] = addr
        r.v[2] = size
        r.v[3] = bank_of(p, line_of(p, addr))
        r.v[4] = writes
        r.v[5] = conflict
        r.v[6] = now + 1 - requested


cdef void flow_touched(
        Sim* s, Spm* p, slot_t requester, nbytes_t ahead, nbytes_t size, bint denied, cycle_t requested, cycle_t now) noexcept nogil:
    """Record an access to `size` bytes of the open run, which begin `ahead` bytes after its first byte. A flow between two scratchpads
    accesses both of them."""
    cdef FlowTrace* t = &s.flow_trace[requester]
    cdef Source w = source_of(s, requester)
    cdef bint writes = not s.dma_job[s.share.flow[requester].job].write
    emit_access(s, REC_ACCESS, p, w, t.at.addr + ahead, size, writes, denied, requested, now)
    if s.requester[requester].paired:
        p = &s.spm[s.requester[far_requester(s, requester)].spm]
        emit_access(s, REC_FAR, p, w, t.at.dram + ahead, size, not writes, denied, requested, now)


cdef void flow_moved(Sim* s, Spm* p, slot_t requester, cycle_t requested, bint denied, cycle_t now) noexcept nogil:
    """Record that the bytes of a flow's request move, one address run after another."""
    cdef Flow* f = &s.share.flow[requester]
    cdef DmaJob* j = &s.dma_job[f.job]
    cdef FlowTrace* t = &s.flow_trace[requester]
    cdef nbytes_t left = f.requested, size
    cdef bint ranges = s.trace.level < TRACE_ACCESS
    t.conflict = t.conflict or denied
    if ranges and left < t.left:
        return
    if ranges and left == t.left and not s.requester[requester].paired:   # one run ends: the lines of both events are next to each other
        emit_moved(s, f, t, REC_RUN, now)
        t.requested = NEVER
        return
    while True:
        size = min(left, t.left)
        if not ranges:
            flow_touched(s, p, requester, t.at.run_left - t.left, size, denied, requested, now)
        left -= size
        t.left -= size
        if t.left:
            return
        if ranges:
            flow_touched(s, p, requester, 0, t.at.run_left, t.conflict, t.requested, now)
        emit_moved(s, f, t, REC_MOVED, now)
        t.requested = NEVER
        if left == 0:
            return
        cursor_advance(&t.at, memory_of(s, f.job), &j.extent, f.channel, t.at.run_left)
        t.left = t.at.run_left
        t.bank = bank_of(p, line_of(p, t.at.addr))
        t.requested = requested
        t.conflict = denied


cdef void work_moved(Sim* s, Spm* p, slot_t requester, cycle_t requested, bint denied, cycle_t now) noexcept nogil:
    """Record that the request of a body cycle is served, one region after another."""
    cdef Compute* e = &s.compute[requester - s.n_flows]
    cdef ComputeJob* j = &s.compute_job[e.job]
    cdef StreamTrace* t = streams_of(s, requester)
    cdef Region* g
    cdef int32_t k
    for k in range(e.streams):
        g = &j.region[k]
        if t[k].last <= t[k].first:
            continue
        if t[k].requested == NEVER:
            t[k].requested = requested
        t[k].conflict = t[k].conflict or denied
        if s.trace.level == TRACE_ACCESS:
            emit_access(
                s, REC_ACCESS, p, source_of(s, requester), g.addr + t[k].first, t[k].last - t[k].first, writes_to(j, k), denied,
                requested, now)
        elif t[k].last == g.nbytes:
            emit_access(s, REC_ACCESS, p, source_of(s, requester), g.addr, g.nbytes, writes_to(j, k), t[k].conflict, t[k].requested, now)
        t[k].first = t[k].last


cdef void record_served(Sim* s, Spm* p, slot_t requester, cycle_t since, cycle_t now) noexcept nogil:
    """P6: record that a request is served which was first denied in cycle `since`."""
    cdef bint denied = since != NEVER
    cdef Source w
    cdef Event* r
    if requester < s.n_flows:
        flow_moved(s, p, requester, since if denied else now, denied, now)
    else:
        work_moved(s, p, requester, since if denied else now, denied, now)
    if denied:
        w = source_of(s, requester)
        r = emit(s.trace, REC_RESUME, now, 6, w.kind, w.engine, w.job, w.channel, 113, w.entry)
        if r:
            r.v[0] = w.job
            r.v[1] = BANK_CONFLICT
            r.v[2] = now - since
            r.v[3] = w.channel if w.channel >= 0 else MISSING


cdef void add_read_banks(Sim* s, Spm* p, slot_t requester, uint64_t* mask) noexcept nogil:
    """Add the banks that an open request of a scratchpad with shared ports reads; it writes the others."""
    cdef StreamTrace* t
    cdef Compute* e
    cdef ComputeJob* j
    cdef int32_t k
    cdef int64_t line, last
    cdef bint far = requester >= far_requester(s, 0)
    if far:
        requester -= far_requester(s, 0)
    if requester < s.n_flows:
        if s.dma_job[s.share.flow[requester].job].write != far:
            set_run(mask, 0, p.banks)
        return
    if requester >= s.n_flows + s.n_compute:         # a component's request: its reads and writes are not recorded separately
        set_run(mask, 0, p.banks)
        return
    t = streams_of(s, requester)
    e = &s.compute[requester - s.n_flows]
    j = &s.compute_job[e.job]
    for k in range(e.streams):
        if writes_to(j, k) or t[k].last <= t[k].first:
            continue
        line = line_of(p, j.region[k].addr + t[k].first)
        last = line_of(p, j.region[k].addr + t[k].last - 1)
        if p.blocked:
            set_run(mask, bank_of(p, line), bank_of(p, last) - bank_of(p, line) + 1)
        else:
            set_banks(p, mask, bank_of(p, line), last - line + 1)


cdef void open_traced_request(Sim* s, Spm* p, slot_t requester, uint64_t* reads, uint64_t* writes, cycle_t now) noexcept nogil:
    """P5: record a request before arbitration; `reads` and `writes` are the banks that it still lacks."""
    cdef Tracer* t = s.trace
    cdef TracedRequest* a = &t.requesting[t.n_requesting]
    cdef int32_t k
    if requester < s.n_flows:
        run_requested(&s.flow_trace[requester], now)
    t.n_requesting += 1
    a.requester = requester
    a.fresh = False
    for k in range(p.words):
        a.requested_reads[k] = reads[k]
        a.requested_writes[k] = writes[k]
        a.no_read[k] = a.no_write[k] = a.by_read[k] = 0


cdef void some_denied(Sim* s, Spm* p, TracedRequest* a) noexcept nogil:
    """Called when a request is denied a bank for the first time in this cycle."""
    a.fresh = s.requester[a.requester].first_denied == NEVER
    s.trace.denied = s.trace.denied or a.fresh
    if not p.split:
        add_read_banks(s, p, a.requester, a.by_read)


cdef void record_request(Sim* s, Spm* p, slot_t requester, uint64_t* reads, uint64_t* writes, cycle_t now) noexcept nogil:
    """P5: record a request and the banks that it is denied, before it takes the ports that are free."""
    cdef TracedRequest* a = &s.trace.requesting[s.trace.n_requesting]
    cdef int32_t k
    cdef uint64_t missing = 0
    open_traced_request(s, p, requester, reads, writes, now)
    for k in range(p.words):
        a.no_read[k] = reads[k] & ~p.free[0][k]
        a.no_write[k] = writes[k] & ~p.free[1][k] if p.split else 0
        missing |= a.no_read[k] | a.no_write[k]
    if missing:
        some_denied(s, p, a)


cdef bint lacks_any(Spm* p, TracedRequest* a) noexcept nogil:
    cdef int32_t k
    for k in range(p.words):
        if a.no_read[k] | a.no_write[k]:
            return True
    return False


cdef void record_denied(Sim* s, Spm* p, int32_t index, int32_t bank, bint no_read, bint no_write) noexcept nogil:
    """P5: record that the request with this index in the cycle is denied a bank. `no_read`, `no_write`: the ports that are missing."""
    cdef TracedRequest* a = &s.trace.requesting[index]
    if not lacks_any(p, a):
        some_denied(s, p, a)
    a.no_read[bank >> 6] |= <uint64_t>no_read << (bank & 63)
    a.no_write[bank >> 6] |= <uint64_t>no_write << (bank & 63)


cdef inline bint has(uint64_t* mask, int32_t bank) noexcept nogil:
    return mask[bank >> 6] >> (bank & 63) & 1


cdef bint denied_so(Spm* p, TracedRequest* a, int32_t bank, bint writes) noexcept nogil:
    """Whether a port of this direction was missing. A shared port counts as a read port if the request reads the bank."""
    if p.split:
        return has(a.no_write if writes else a.no_read, bank)
    return has(a.no_read, bank) and has(a.by_read, bank) != writes


cdef bint requests_bank(Spm* p, TracedRequest* a, int32_t bank, bint writes) noexcept nogil:
    """Whether the request needs a port of the kind that serves this direction."""
    return has(a.requested_writes if p.split and writes else a.requested_reads, bank)


cdef void emit_conflict(Sim* s, Spm* p, int32_t bank, bint writes, cycle_t now) noexcept nogil:
    cdef TracedRequest* a
    cdef TracedRequest* first = NULL
    cdef int32_t k, requested = 0, kinds = 0
    cdef Event* r
    for k in range(s.trace.n_requesting):
        a = &s.trace.requesting[k]
        requested += requests_bank(p, a, bank, writes)
        if denied_so(p, a, bank, writes):
            if first == NULL:
                first = a
            kinds |= 1 << source_of(s, a.requester).kind
    r = emit(s.trace, REC_CONFLICT, now, 5, MEMORY, <int32_t>(p - s.spm), 0, -1, 61, source_of(s, first.requester).entry)
    if r:
        r.v[0] = bank
        r.v[1] = writes
        r.v[2] = requested
        r.v[3] = p.ports[1] if p.split and writes else p.ports[0]
        r.v[4] = kinds & CLIENTS
        r.v[5] = p - s.spm


cdef void emit_held(Sim* s, Spm* p, TracedRequest* a, cycle_t now) noexcept nogil:
    """Record that a request is held. The reported holder is the first request that got a port of the missing kind on the lowest bank
    that the held request lacks."""
    cdef Source w = source_of(s, a.requester)
    cdef int32_t record = REC_FAR_STALL if a.requester >= far_requester(s, 0) else REC_STALL
    cdef Event* r = emit(s.trace, record, now, 5, w.kind, w.engine, w.job, w.channel, 112, w.entry)
    cdef TracedRequest* b
    cdef int32_t k, bank = 0
    if not r:
        return
    while not (a.no_read[bank >> 6] | a.no_write[bank >> 6]):
        bank += 64
    bank = (bank & ~63) + trailing_zeros(a.no_read[bank >> 6] | a.no_write[bank >> 6])
    r.v[0] = w.job
    r.v[1] = BANK_CONFLICT
    r.v[2] = w.channel if w.channel >= 0 else MISSING
    r.v[3] = bank
    r.v[4] = MISSING
    for k in range(s.trace.n_requesting):
        b = &s.trace.requesting[k]
        if requests_bank(p, b, bank, not has(a.no_read, bank)) and not has(b.no_read, bank) and not has(b.no_write, bank):
            r.v[4] = source_of(s, b.requester).job
            return


cdef bint told(Sim* s, slot_t requester, cycle_t now) noexcept nogil:
    """A flow between scratchpads that is denied in both is recorded as held only once."""
    cdef FlowTrace* t
    if not s.requester[requester].paired:
        return False
    t = &s.flow_trace[requester if requester < s.n_flows else requester - far_requester(s, 0)]
    if t.held == now:
        return True
    t.held = now
    return False


cdef void record_conflicts(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """The end of P5: record the conflicts of requests that were denied for the first time."""
    cdef Tracer* t = s.trace
    cdef int32_t k, w, bank
    cdef uint64_t news
    cdef TracedRequest* a
    cdef bint[2] writes
    if t.denied:
        for w in range(p.words):
            news = 0
            for k in range(t.n_requesting):
                if t.requesting[k].fresh:
                    news |= t.requesting[k].no_read[w] | t.requesting[k].no_write[w]
            while news:
                bank = 64 * w + trailing_zeros(news)
                news &= news - 1
                writes[0] = writes[1] = False
                for k in range(t.n_requesting):
                    a = &t.requesting[k]
                    if a.fresh:
                        writes[0] = writes[0] or denied_so(p, a, bank, False)
                        writes[1] = writes[1] or denied_so(p, a, bank, True)
                if writes[0]:
                    emit_conflict(s, p, bank, False, now)
                if writes[1]:
                    emit_conflict(s, p, bank, True, now)
        for k in range(t.n_requesting):
            if t.requesting[k].fresh and not told(s, t.requesting[k].requester, now):
                emit_held(s, p, &t.requesting[k], now)
    t.denied = False
    t.n_requesting = 0
