"""Lookups when transfers start, and the queues of write-backs (docs/model/llc.md).

The result of a lookup is final, so a transfer keeps a bit for each line that one of its rows touches. The bit is set if the
bytes of the line move only over the cache. The cursors of its flows use these bits (model/dram/extent.pyx). A queue moves whole
bytes as its carry allows, like flows of components; `Requester.next_at` is the cycle in which the carry reaches a piece.
"""
from libc.string cimport memset

from kernbench_core.model.cache cimport (
    Cache, Caches, Line, WriteBack, cache_find, cache_full, cache_insert, cache_oldest, cache_replace, cache_touch)
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport Dram, lines_of, rows_begin, rows_end
from kernbench_core.model.share.membership cimport Flow, flow_accrue, flow_next, share_enter, share_quit
from kernbench_core.model.sim cimport memory_of
from kernbench_core.trace.record cimport record_lookup
from kernbench_core.types cimport NEVER, NONE, cycle_t, int64_t, uint64_t

cdef enum:
    PIECE = 1 << 30           # [B] a size for which PIECE * den stays below 2**61


cdef void write_back(Sim* s, Cache* c, Line* x) noexcept nogil:
    """P3: the bytes of an evicted dirty line are stored until P7."""
    cdef Dram* d = &s.memory[x.memory]
    cdef int64_t at = x.number * c.line, end = at + c.line, step
    c.write_backs += 1
    s.caches.appended = True
    while at < end:
        step = min((at // d.interleave + 1) * d.interleave, end) - at
        s.caches.queue[d.first + at // d.interleave % d.channels].added += step
        at += step


cdef void take_in(Sim* s, Cache* c, int64_t number, int32_t memory, bint dirty) noexcept nogil:
    """Insert a line; if its set is full, first evict the oldest line of the set."""
    cdef slot_t k
    if not cache_full(c, number):
        cache_insert(c, number, memory, dirty)
        return
    k = cache_oldest(c, number)
    c.evictions += 1
    if c.slot[k].dirty:
        write_back(s, c, &c.slot[k])
    cache_replace(c, k, number, memory, dirty)


cdef bint look_up(Sim* s, Cache* c, int64_t number, int32_t memory, bint write, nbytes_t nbytes) noexcept nogil:
    """Look up one line of a transfer; return whether its bytes move only over the cache."""
    cdef slot_t k = cache_find(c, number)
    cdef bint back = write and c.back
    if k != NONE:
        c.hits += 1
        c.hit_bytes += nbytes
        cache_touch(c, k)
        c.slot[k].dirty |= back
        return back or not write
    c.misses += 1
    c.miss_bytes += nbytes
    if write and not c.allocate:
        return False
    take_in(s, c, number, memory, back)
    return back


cdef void cache_find_area(Sim* s, slot_t job) noexcept nogil:
    """Let the extent of a transfer in flight behind a cache point to its bits."""
    s.dma_job[job].extent.cached = s.caches.bits + <int64_t>(s.caches.area[job] - 1) * s.caches.words


cdef bint cache_reserve(Sim* s, slot_t job) noexcept nogil:
    """Give a transfer with memory behind a cache an area of bits, all zero; false if there is no area, or if the area is too
    small."""
    cdef Caches* d = s.caches
    cdef DmaJob* j = &s.dma_job[job]
    cdef Dram* m = memory_of(s, job)
    cdef int64_t words
    j.extent.pitch = lines_of(m, &j.extent)
    words = (j.extent.rows * j.extent.pitch + 63) // 64
    if d.n_free == 0 or words > d.words:
        return False
    d.n_free -= 1
    d.area[job] = 1 + d.free[d.n_free]
    cache_find_area(s, job)
    memset(j.extent.cached, 0, words * sizeof(uint64_t))
    return True


cdef void cache_release(Sim* s, slot_t job) noexcept nogil:
    """Free the area of a transfer that has ended."""
    cdef Caches* d = s.caches
    d.free[d.n_free] = d.area[job] - 1
    d.n_free += 1
    d.area[job] = 0
    s.dma_job[job].extent.cached = NULL


cdef void cache_look_up(Sim* s, slot_t job, cycle_t now) noexcept nogil:
    """P3: look up the lines of a transfer that starts."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef Dram* m = memory_of(s, job)
    cdef Cache* c = &s.caches.cache[m.cache]
    cdef Cache before = c[0]
    cdef int64_t row, at, end, stop, number, bit
    cache_reserve(s, job)
    for row in range(j.extent.rows):
        at = rows_begin(m, &j.extent, row)
        end = rows_end(m, &j.extent, row)
        bit = row * j.extent.pitch
        number = at // c.line
        while at < end:
            stop = min((number + 1) * c.line, end)
            if look_up(s, c, number, j.memory, j.write, stop - at):
                j.extent.cached[bit >> 6] |= <uint64_t>1 << (bit & 63)
            at = stop
            number += 1
            bit += 1
    if s.trace != NULL:
        record_lookup(s, job, &before, now)


cdef void cache_describe_queue(Sim* s, int32_t channel) noexcept nogil:
    """Set the constant fields of the queue of a channel, and its position in tie-break order."""
    cdef slot_t slot = s.caches.first + channel
    cdef Flow* f = &s.share.flow[slot]
    f.weight = 1
    f.bus = channel
    f.channel = channel
    f.started = s.caches.queue[channel].since
    f.engine = s.n_dma + s.n_plugs
    f.job_seq = channel
    f.route = s.write_back_route[channel]
    s.requester[slot].spm = NONE


cdef void cache_open_queue(Sim* s, int32_t channel) noexcept nogil:
    """Make the queue of a channel empty, and a member of no resource."""
    cdef slot_t slot = s.caches.first + channel
    cdef Flow* f = &s.share.flow[slot]
    f.den = 1
    f.rated = -1
    f.job = NONE
    f.sibling = NONE
    f.line_next = NONE
    cache_describe_queue(s, channel)
    s.requester[slot].next_at = NEVER


cdef void settle_queue(Sim* s, slot_t slot, cycle_t at) noexcept nogil:
    """Bring a queue up to cycle `at`: move the bytes that its carry covers."""
    cdef Flow* f = &s.share.flow[slot]
    cdef nbytes_t moved
    cdef int32_t h
    if f.member and at > f.seen:
        flow_accrue(f, at - f.seen)
    f.seen = at
    moved = min(f.left, f.carry // f.den)
    f.carry -= moved * f.den
    f.left -= moved
    f.piece = min(f.left, PIECE)
    if f.left == 0:
        f.carry = 0
    for h in range(f.route.length):
        s.share.res[s.share.path[f.route.first + h]].bytes += moved
        s.share.res[s.share.path[f.route.first + h]].stored += moved


cdef nbytes_t cache_pending(Sim* s, int32_t channel) noexcept nogil:
    """[B] The bytes that a queue has moved since it was last brought up to date; the queue does not change."""
    cdef Flow* f = &s.share.flow[s.caches.first + channel]
    cdef int64_t carry = f.carry
    if f.member and s.cycle > f.seen:
        carry += (s.cycle - f.seen) * f.num
    return min(f.left, carry // f.den)


cdef void leave(Sim* s, slot_t slot, cycle_t at) noexcept nogil:
    """Make a queue without bytes a member of no resource, as at the beginning of the run."""
    cdef Flow* f = &s.share.flow[slot]
    share_quit(&s.share, slot, at)
    f.raw_num = f.raw_den = f.num = 0
    f.den = 1
    f.total = 0
    s.requester[slot].next_at = NEVER


cdef void caches_find_next(Sim* s) noexcept nogil:
    """Called after the rates of queues may have changed."""
    cdef int32_t k
    s.caches.next = NEVER
    for k in range(s.share.channels):
        s.caches.next = min(s.caches.next, s.requester[s.caches.first + k].next_at)


cdef void caches_complete(Sim* s, cycle_t now) noexcept nogil:
    """P7: append bytes to queues, and let empty queues leave their resources."""
    cdef Caches* d = s.caches
    cdef WriteBack* q
    cdef Flow* f
    cdef int32_t k
    cdef slot_t slot
    for k in range(s.share.channels):
        q = &d.queue[k]
        slot = d.first + k
        f = &s.share.flow[slot]
        if q.added == 0 and s.requester[slot].next_at > now:
            continue
        settle_queue(s, slot, now + 1)
        if f.left == 0:
            q.since = now + 1
        f.left += q.added
        f.total = f.left
        q.added = 0
        if f.left == 0:
            leave(s, slot, now + 1)
            continue
        f.piece = min(f.left, PIECE)
        if f.member:
            s.requester[slot].next_at = flow_next(f)
        elif not f.entered:
            f.started = q.since
            share_enter(&s.share, slot, now + 1)
    d.appended = False
    caches_find_next(s)
