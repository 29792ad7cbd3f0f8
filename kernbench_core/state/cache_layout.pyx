"""Builds the tables of last-level caches from the data that `kernbench.cmdq.lower` makes of a machine."""
from kernbench_core.model.cache cimport Cache, Caches, Line, LineSet, WriteBack
from kernbench_core.model.cache_flows cimport cache_open_queue
from kernbench_core.model.dram.extent cimport Dram, lines_of
from kernbench_core.model.share.membership cimport Route
from kernbench_core.model.sim cimport memory_of
from kernbench_core.types cimport NEVER, NONE, slot_t, uint64_t

cdef enum:
    HOPS = 2                  # resources of a queue: its channel, and the cache


cdef int lay_out_write_backs(Sim* s, Arena a, int32_t first, list caches) except -1:
    """The routes of the queues, whose resources begin at `first` in the paths of all routes."""
    cdef int32_t k, c
    cdef Dram* d
    a.own(<void**>&s.write_back_route, s.share.channels, sizeof(Route), False)
    for k in range(s.n_memories):
        d = &s.memory[k]
        if d.cache == NONE or d.first == NONE:
            continue
        for c in range(d.first, d.first + d.channels):
            s.write_back_route[c].first = first + HOPS * c
            s.write_back_route[c].length = HOPS
            s.share.path[first + HOPS * c] = c
            s.share.path[first + HOPS * c + 1] = caches[d.cache]["resource"]
    return HOPS


cdef int lay_out_cache(Cache* c, Arena a, dict spec) except -1:
    cdef int32_t k
    cdef int64_t buckets
    c.resource = spec["resource"]
    c.line = spec["line"]
    c.ways = spec["ways"]
    c.sets = spec["sets"]
    c.lines = <int32_t>(c.sets * c.ways)
    c.back = spec["back"]
    c.allocate = spec["allocate"]
    c.latency = spec["latency"]
    buckets = 1 << (c.lines - 1).bit_length() if c.lines > 1 else 1
    c.mask = buckets - 1
    a.own(<void**>&c.slot, c.lines, sizeof(Line))
    a.own(<void**>&c.set_, c.sets, sizeof(LineSet))
    a.own(<void**>&c.bucket, buckets, sizeof(slot_t))
    for k in range(c.sets):
        c.set_[k].youngest = c.set_[k].oldest = NONE
    for k in range(buckets):
        c.bucket[k] = NONE
    return 0


cdef int64_t most_lines(Sim* s) noexcept nogil:
    """The largest number of lines that the rows of one transfer can touch; jobs of components are limited by their scratchpad
    (plugin/component_jobs.pyx)."""
    cdef int64_t most = 0, room
    cdef int32_t k, i
    cdef Dram* d
    for k in range(s.n_dma_jobs):
        d = memory_of(s, k)
        if d.cache != NONE:
            most = max(most, s.dma_job[k].extent.rows * lines_of(d, &s.dma_job[k].extent))
    for k in range(s.n_memories if s.n_component_jobs else 0):
        d = &s.memory[k]
        for i in range(s.n_spm if d.cache != NONE else 0):
            if not s.spm[i].nowhere:
                room = s.spm[i].bank_lines * s.spm[i].banks * s.spm[i].line
                most = max(most, 3 * (room // d.line + 1) + 2 * (room // d.align + 1))
    return most


cdef int lay_out_caches(Sim* s, Arena a, list caches, int64_t flows) except -1:
    """The `flows` of transfers come before the queues; each transfer behind a cache has room for at least two of them."""
    cdef Caches* d
    cdef int32_t k, areas = <int32_t>(flows // 2)
    a.own(<void**>&s.caches, 1, sizeof(Caches))
    d = s.caches
    d.n = len(caches)
    d.first = <slot_t>flows
    d.next = NEVER
    a.own(<void**>&d.cache, d.n, sizeof(Cache))
    for k in range(d.n):
        lay_out_cache(&d.cache[k], a, caches[k])
    a.own(<void**>&d.queue, s.share.channels, sizeof(WriteBack))
    d.words = <int32_t>((most_lines(s) + 63) // 64)
    a.own(<void**>&d.bits, <size_t>areas * d.words, sizeof(uint64_t))
    a.own(<void**>&d.free, areas, sizeof(int32_t))
    for k in range(areas):
        d.free[k] = areas - 1 - k
    d.n_free = areas
    a.own(<void**>&d.area, s.n_dma_jobs + s.n_component_jobs, sizeof(int32_t))
    for k in range(s.share.channels):
        cache_open_queue(s, k)
    return 0
