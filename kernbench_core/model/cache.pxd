"""The last-level cache: the lines of each set, ordered from the oldest to the youngest, and the queues of write-backs
(docs/model/llc.md)."""
from kernbench_core.types cimport cycle_t, int8_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef struct Line:             # a slot of a cache, which holds one line or is empty
    int64_t number            # number of the line: address // line_bytes
    slot_t younger, older     # neighbours in its set
    slot_t chain              # the next line of its hash bucket
    int32_t memory            # the memory to which it is written back
    int8_t dirty              # whether it must be written back when it is evicted

cdef struct LineSet:
    slot_t youngest, oldest   # lines; NONE: the set is empty
    int32_t used              # slots in use; slots are taken one after another and never become free

cdef struct Cache:            # the fields up to `resource` are state; the others are constant
    int64_t hits              # @count number of lookups that found their line
    int64_t misses            # @count number of lookups that did not find their line
    nbytes_t hit_bytes        # @count [B] of the lookups that found their line
    nbytes_t miss_bytes       # @count [B] of the lookups that did not find their line
    int64_t evictions         # @count number of lines that were replaced
    int64_t write_backs       # @count number of replaced lines that were dirty
    int32_t resource          # index of the resource that has its bandwidth
    nbytes_t line             # [B] length of a line
    int64_t sets              # number of sets; the set of a line is its number modulo this
    int32_t ways, lines       # lines of a set; lines of all sets
    int32_t back              # whether the write policy is write-back
    int32_t allocate          # whether a store that misses inserts its lines
    cycle_t latency           # head latency of a hit, without links
    Line* slot                # [lines] the lines, one set after another
    LineSet* set_             # [sets] the order of the lines of each set
    slot_t* bucket  # [buckets] the first line of each bucket: lines whose numbers are equal modulo the number of buckets
    int64_t mask              # buckets - 1

cdef struct WriteBack:        # the queue of write-backs of a DRAM channel
    nbytes_t added            # [B] of the dirty lines that were evicted in this cycle
    cycle_t since             # @past the cycle from which the queue has had bytes
    int8_t told               # @flag in a traced run: whether the trace has reported that the queue is a member of its channel

cdef struct Caches:
    Cache* cache              # [n] the caches
    int32_t n                 # number of caches
    slot_t first              # the flow of the queue of channel 0; the flows of the other channels follow
    WriteBack* queue          # [channels] the queue of write-backs of each DRAM channel
    bint appended             # whether bytes were appended to a queue in this cycle
    cycle_t next              # no queue moves its last byte, or a piece, in an earlier cycle
    uint64_t* bits            # [areas][words]: a bit for each line of a transfer; set if the bytes move only over the cache
    int32_t words             # number of words of an area of `bits`
    int32_t* free             # stack of unused areas of `bits`
    int32_t n_free            # number of unused areas
    int32_t* area             # [jobs of DMA engines] for a transfer in flight, 1 + its area of `bits`; else 0

cdef slot_t cache_find(Cache* c, int64_t number) noexcept nogil
cdef void cache_touch(Cache* c, slot_t k) noexcept nogil
cdef bint cache_full(Cache* c, int64_t number) noexcept nogil
cdef void cache_insert(Cache* c, int64_t number, int32_t memory, bint dirty) noexcept nogil
cdef slot_t cache_oldest(Cache* c, int64_t number) noexcept nogil
cdef void cache_replace(Cache* c, slot_t k, int64_t number, int32_t memory, bint dirty) noexcept nogil

cdef inline bint caches_due(Caches* d, cycle_t now) noexcept nogil:
    """Whether P7 must handle a queue."""
    return d != NULL and (d.appended or d.next <= now)
