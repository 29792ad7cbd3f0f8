"""The content of a snapshot for last-level caches: their lines, the lookup results of transfers in flight, and the queues of write-backs.

The lines of a set are written from the oldest to the youngest; their places do not matter to a run.
"""
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kernbench_core.model.cache cimport Cache, Caches, WriteBack, cache_find, cache_full, cache_insert
from kernbench_core.model.cache_flows cimport cache_describe_queue, cache_open_queue, cache_reserve, caches_find_next, settle_queue
from kernbench_core.model.control cimport Entry
from kernbench_core.model.share.membership cimport Flow, Resource, flow_next, pace_rebuild, share_enter, share_join, share_touch
from kernbench_core.model.sim cimport memory_of
from kernbench_core.state.fields cimport CACHE, COUNTER, FLOW, WORD, WRITEBACK, Unpack
from kernbench_core.types cimport NEVER, NONE, OP_DMA, int32_t, slot_t


cdef void settle_caches(Sim* s) noexcept nogil:
    """Bring queues up to the run's cycle."""
    cdef int32_t k
    for k in range(s.share.channels if s.caches != NULL else 0):
        settle_queue(s, s.caches.first + k, s.cycle)
        if not s.traced:
            s.caches.queue[k].told = False


cdef int64_t lines_out(Cache* c, int64_t* used, int64_t* line, int64_t* memory) noexcept nogil:
    """Write the lines of each set; return their number."""
    cdef int64_t k, n = 0
    cdef slot_t at
    for k in range(c.sets):
        used[k] = c.set_[k].used
        at = c.set_[k].oldest
        while at != NONE:
            line[n] = 2 * c.slot[at].number + c.slot[at].dirty
            memory[n] = c.slot[at].memory
            n += 1
            at = c.slot[at].younger
    return n


cdef int lines_in(Sim* s, int32_t number, int64_t* used, int64_t* line, int64_t* memory) except -1:
    """Restore the sets; ValueError if no run can have them."""
    cdef Cache* c = &s.caches.cache[number]
    cdef int64_t k, _, n = 0
    for k in range(c.sets):
        for _ in range(used[k]):
            if (line[n] >> 1) % c.sets != k or cache_find(c, line[n] >> 1) != NONE or cache_full(c, line[n] >> 1):
                raise ValueError(f"cache {number}: line {line[n] >> 1} is not in set {k}, or is there twice")
            if not 0 <= memory[n] < s.n_memories or s.memory[memory[n]].cache != number:
                raise ValueError(f"cache {number}: line {line[n] >> 1} is of memory {memory[n]}, which is not behind it")
            cache_insert(c, line[n] >> 1, <int32_t>memory[n], line[n] & 1)
            n += 1
    return 0


cdef int visit_lines(Sim* s, Visitor v, int32_t number) except -1:
    cdef Cache* c = &s.caches.cache[number]
    cdef int64_t* used = <int64_t*>malloc((c.sets + 2 * <int64_t>c.lines) * sizeof(int64_t))
    cdef int64_t* line = used + c.sets
    cdef int64_t* memory = line + c.lines
    cdef int64_t n = 0, k
    if used == NULL:
        raise MemoryError("no memory for a snapshot")
    try:
        if not isinstance(v, Unpack):
            n = lines_out(c, used, line, memory)
        v.table(&COUNTER, used, sizeof(int64_t), c.sets)
        if isinstance(v, Unpack):
            for k in range(c.sets):
                if used[k] > c.ways:
                    raise ValueError(f"cache {number}: set {k} has {used[k]} lines of {c.ways}")
                n += used[k]
        v.table(&COUNTER, line, sizeof(int64_t), n)
        v.table(&COUNTER, memory, sizeof(int64_t), n)
        if isinstance(v, Unpack):
            lines_in(s, number, used, line, memory)
    finally:
        free(used)
    return 0


cdef int64_t words_of(Sim* s, slot_t job) noexcept nogil:
    """The number of words of the bits of a transfer."""
    return (s.dma_job[job].extent.rows * s.dma_job[job].extent.pitch + 63) // 64


cdef int visit_caches(Sim* s, Visitor v) except -1:
    """Called after the entries, which determine the transfers in flight."""
    cdef int32_t k
    cdef Entry* e
    for k in range(s.caches.n):
        v.table(&CACHE, &s.caches.cache[k], sizeof(Cache), 1)
        visit_lines(s, v, k)
    for k in range(s.n_dma_jobs):
        e = &s.control.entry[s.dma_job[k].entry]
        if e.op != OP_DMA or e.start == NEVER or e.end != NEVER or memory_of(s, k).cache == NONE:
            continue
        if isinstance(v, Unpack) and not cache_reserve(s, k):
            raise ValueError(f"entry {s.dma_job[k].entry}: more transfers have started than are on their way at a time")
        v.table(&WORD, s.dma_job[k].extent.cached, sizeof(int64_t), words_of(s, k))
    return 0


cdef int visit_write_backs(Sim* s, Visitor v) except -1:
    """The queues, and the bytes of finished flows by route, which does not follow from their entries."""
    cdef int32_t k
    for k in range(s.share.channels):
        v.table(&WRITEBACK, &s.caches.queue[k], sizeof(WriteBack), 1)
        v.table(&FLOW, &s.share.flow[s.caches.first + k], sizeof(Flow), 1)
    v.table(&COUNTER, &s.share.res[0].bytes, sizeof(Resource), s.share.n_res)
    v.table(&COUNTER, &s.share.res[0].stored, sizeof(Resource), s.share.n_res)
    return 0


cdef int64_t max_cache_bytes(Sim* s) noexcept nogil:
    """[B] of full caches, and of the bits of the largest number of transfers."""
    cdef Caches* d = s.caches
    cdef int64_t most = 0
    cdef int32_t k
    if d == NULL:
        return 0
    for k in range(d.n):
        most += 2 * <int64_t>d.cache[k].lines * <int64_t>COUNTER.nbytes
    return most + s.n_flows * <int64_t>d.words * <int64_t>WORD.nbytes


cdef void reset_caches(Sim* s) noexcept nogil:
    cdef Caches* d = s.caches
    cdef Cache* c
    cdef int32_t k, areas = <int32_t>(d.first // 2)
    cdef int64_t i
    for k in range(d.n):
        c = &d.cache[k]
        for i in range(c.sets):
            c.set_[i].youngest = c.set_[i].oldest = NONE
            c.set_[i].used = 0
        for i in range(c.mask + 1):
            c.bucket[i] = NONE
    for k in range(s.n_dma_jobs):
        s.dma_job[k].extent.cached = NULL
        d.area[k] = 0
    for k in range(areas):
        d.free[k] = areas - 1 - k
    d.n_free = areas
    d.appended = False
    d.next = NEVER
    for k in range(s.share.channels):
        d.queue[k].added = 0
        memset(&s.share.flow[d.first + k], 0, sizeof(Flow))
        cache_open_queue(s, k)


cdef int resume_queue(Sim* s, int32_t channel) except -1:
    cdef slot_t slot = s.caches.first + channel
    cdef Flow* f = &s.share.flow[slot]
    cdef bint entered = f.entered, member = f.member
    cdef str who = f"the write-backs of DRAM channel {channel}"
    # without a waiting line, a flow that enters is a member before the next P4 gives it a rate
    cdef bint unrated = f.num == 0 and s.share.queues
    if f.requested or f.out or f.den < 1 or f.carry >= f.den or entered != (f.left > 0) or (member and (unrated or not entered)):
        raise ValueError(f"{who}: left = {f.left}, carry = {f.carry} of 1/{f.den} bytes, entered = {f.entered}, member = {f.member}")
    if s.traced and s.caches.queue[channel].told != member:
        share_touch(&s.share, channel)          # the next P4 reports it
    if f.left == 0:
        if f.num or f.carry or f.den != 1:
            raise ValueError(f"{who}: there are none, and their rate is {f.num}/{f.den}")
        return 0
    if f.route.length == 0:
        raise ValueError(f"{who}: left = {f.left}: no cache is in front of it")
    f.raw_num = f.num
    f.raw_den = f.den if f.num else 0
    pace_rebuild(f)
    f.total = f.left
    f.seen = s.cycle
    cache_describe_queue(s, channel)
    f.entered = f.member = False
    settle_queue(s, slot, s.cycle)
    share_enter(&s.share, slot, s.cycle)
    if member and not f.member:
        share_join(&s.share, slot, s.cycle)
    if f.member and f.num:
        s.requester[slot].next_at = flow_next(f)
    return 0


cdef int resume_write_backs(Sim* s) except -1:
    """Called after the flows of transfers."""
    cdef int32_t k
    for k in range(s.share.channels):
        resume_queue(s, k)
    caches_find_next(s)
    return 0
