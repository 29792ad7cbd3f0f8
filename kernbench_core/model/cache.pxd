"""The last-level cache: its lines, in sets from the oldest to the youngest, and the queues of bytes to be written back
(docs/model/llc.md)."""
from kernbench_core.types cimport cycle_t, int8_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef struct Line:             # a place of a cache
    int64_t number            # address // line_bytes
    slot_t younger, older     # in its set
    slot_t chain              # the next of its bucket
    int32_t memory            # where it is written back to
    int8_t dirty              # evicted, it is written back

cdef struct LineSet:
    slot_t youngest, oldest   # line, NONE: there is none
    int32_t used              # places: they are taken one after the other, and never given back

cdef struct Cache:            # up to `resource` it is state; behind that what is constant
    int64_t hits              # @count lookups
    int64_t misses            # @count
    nbytes_t hit_bytes        # @count
    nbytes_t miss_bytes       # @count
    int64_t evictions         # @count lines
    int64_t write_backs       # @count of these, dirty ones
    int32_t resource          # of its bandwidth
    nbytes_t line             # [B]
    int64_t sets              # the set of a line is its number modulo the sets
    int32_t ways, lines       # of a set; of all sets
    int32_t back              # write: back
    int32_t allocate          # a store that misses inserts its lines
    cycle_t latency           # head latency of a hit, without links
    Line* place               # [lines] set after set
    LineSet* set_             # [sets]
    slot_t* bucket            # [buckets] first line of those whose number is the same modulo the buckets
    int64_t mask              # buckets - 1

cdef struct WriteBack:        # the queue of a DRAM channel
    nbytes_t added            # [B] evicted in this cycle
    cycle_t since             # @past it has had bytes from that cycle on
    int8_t told               # @flag traced: it is a member, as far as the trace says

cdef struct Caches:
    Cache* cache              # [n]
    int32_t n                 # caches
    slot_t first              # flow of the queue of channel 0; those of the other channels follow
    WriteBack* queue          # [channels]
    bint appended             # some queue was, in this cycle
    cycle_t next              # no queue moves its last byte, or a piece, in an earlier cycle
    uint64_t* bits            # [areas][words]: a bit for each line of a transfer whose bytes move over the cache alone
    int32_t words             # of an area
    int32_t* free             # stack of unused areas
    int32_t n_free            # how many these are
    int32_t* area             # [jobs of DMA engines] 1 + that of a transfer on its way, else 0

cdef slot_t cache_find(Cache* c, int64_t number) noexcept nogil
cdef void cache_touch(Cache* c, slot_t k) noexcept nogil
cdef bint cache_full(Cache* c, int64_t number) noexcept nogil
cdef void cache_insert(Cache* c, int64_t number, int32_t memory, bint dirty) noexcept nogil
cdef slot_t cache_oldest(Cache* c, int64_t number) noexcept nogil
cdef void cache_replace(Cache* c, slot_t k, int64_t number, int32_t memory, bint dirty) noexcept nogil

cdef inline bint caches_due(Caches* d, cycle_t now) noexcept nogil:
    """P7 has something to do for a queue."""
    return d != NULL and (d.appended or d.next <= now)
