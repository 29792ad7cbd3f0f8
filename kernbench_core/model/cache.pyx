"""The lines of a last-level cache: a list for each set, from the oldest to the youngest, and hash buckets to find a line by its
number."""
from kernbench_core.types cimport NONE


cdef slot_t cache_find(Cache* c, int64_t number) noexcept nogil:
    """The slot of a line; NONE if the line is not in the cache."""
    cdef slot_t k = c.bucket[number & c.mask]
    while k != NONE and c.slot[k].number != number:
        k = c.slot[k].chain
    return k


cdef void unlink(Cache* c, slot_t k) noexcept nogil:
    """Remove a line from the order of its set."""
    cdef Line* x = &c.slot[k]
    cdef LineSet* t = &c.set_[x.number % c.sets]
    if x.older == NONE:
        t.oldest = x.younger
    else:
        c.slot[x.older].younger = x.younger
    if x.younger == NONE:
        t.youngest = x.older
    else:
        c.slot[x.younger].older = x.older


cdef void append(Cache* c, slot_t k) noexcept nogil:
    """Make a line the youngest of its set."""
    cdef Line* x = &c.slot[k]
    cdef LineSet* t = &c.set_[x.number % c.sets]
    x.younger = NONE
    x.older = t.youngest
    if t.youngest == NONE:
        t.oldest = k
    else:
        c.slot[t.youngest].younger = k
    t.youngest = k


cdef void cache_touch(Cache* c, slot_t k) noexcept nogil:
    """Make a line that is in the cache the youngest of its set."""
    if c.slot[k].younger != NONE:
        unlink(c, k)
        append(c, k)


cdef void put(Cache* c, slot_t k, int64_t number, int32_t memory, bint dirty) noexcept nogil:
    """Store a line in an empty slot."""
    cdef Line* x = &c.slot[k]
    x.number = number
    x.memory = memory
    x.dirty = dirty
    x.chain = c.bucket[number & c.mask]
    c.bucket[number & c.mask] = k
    append(c, k)


cdef bint cache_full(Cache* c, int64_t number) noexcept nogil:
    """Whether the set of a line has no empty slot."""
    return c.set_[number % c.sets].used == c.ways


cdef void cache_insert(Cache* c, int64_t number, int32_t memory, bint dirty) noexcept nogil:
    """Insert a line into a set that is not full."""
    cdef LineSet* t = &c.set_[number % c.sets]
    t.used += 1
    put(c, <slot_t>(number % c.sets * c.ways + t.used - 1), number, memory, dirty)


cdef slot_t cache_oldest(Cache* c, int64_t number) noexcept nogil:
    """The slot of the oldest line in the set to which this line belongs."""
    return c.set_[number % c.sets].oldest


cdef void cache_replace(Cache* c, slot_t k, int64_t number, int32_t memory, bint dirty) noexcept nogil:
    """Insert a line in the slot of another line of its set, and evict that line."""
    cdef slot_t* link = &c.bucket[c.slot[k].number & c.mask]
    while link[0] != k:
        link = &c.slot[link[0]].chain
    link[0] = c.slot[k].chain
    unlink(c, k)
    put(c, k, number, memory, dirty)
