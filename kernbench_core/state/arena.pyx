"""Zeroed tables with one owner.

Every table is requested together with the location of the pointer to it. A snapshot therefore knows which words of the tables are pointers:
they are written as zero, and are kept unchanged when a snapshot is loaded. A snapshot contains the first bytes of each item of a table;
constants and derived values come after them (state/rebuild.pyx). Two runs in equal states have equal snapshots.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

cdef extern from "state/huge_pages.h":
    void* map_huge "kb_map_huge"(size_t nbytes)
    void unmap "kb_unmap"(void* data, size_t nbytes)

cdef enum:
    CACHE_LINE = 64           # [B] of the processor
    SLAB = 8 << 20            # [B] of tables in huge pages that are requested from the system at a time
    HUGE_PAGE = 2 << 20       # [B]


cdef char* zeroed(size_t items, size_t size) except NULL:
    """Memory for a table of zeroed items, and for the bytes before the table (`aligned`)."""
    cdef char* found = <char*>calloc(items + CACHE_LINE // size + 1, size)
    if found == NULL:
        raise MemoryError(f"no memory for a table of {items} items of {size} bytes")
    return found


cdef char* aligned(char* allocated, size_t nbytes) noexcept:
    """The first byte of a table in its memory. A table of at least one line of the processor's cache begins with a
    line, so that its items are in as few lines as possible. Smaller tables share lines."""
    if nbytes < CACHE_LINE:
        return allocated
    return <char*>((<uintptr_t>allocated + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE)


cdef size_t copy_items(char* image, Block* b, bint out) noexcept:
    """Copy the saved bytes of a table's items into an image or back; return the number of bytes."""
    cdef size_t k, items = b.nbytes // b.size
    cdef size_t keep = b.keep, size = b.size
    if keep == size:
        keep = size = b.nbytes
        items = 1
    for k in range(items):
        if out:
            memcpy(image + k * keep, b.data + k * size, keep)
        else:
            memcpy(b.data + k * size, image + k * keep, keep)
    return items * keep


cdef size_t place_of(Block* b, char* slot) noexcept:
    """The offset of a location of a table in its image."""
    cdef size_t at = slot - b.data
    return at // b.size * b.keep + at % b.size


cdef class Arena:
    def __dealloc__(self):
        cdef size_t k
        for k in range(self.n):
            free(self.block[k].allocated)
        for k in range(self.n_slabs):
            unmap(self.slab[k].data, self.slab[k].nbytes)
        free(self.block)
        free(self.slab)

    cdef char* from_slab(self, size_t nbytes) except? NULL:
        """Zeroed memory for a table in huge pages, which the arena frees at its end; NULL: the system has none."""
        cdef Slab* slab
        cdef size_t whole = (max(nbytes, <size_t>SLAB) + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE
        nbytes = (nbytes + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        if self.n_slabs == 0 or self.slab[self.n_slabs - 1].nbytes - self.slab[self.n_slabs - 1].used < nbytes:
            slab = <Slab*>realloc(self.slab, (self.n_slabs + 1) * sizeof(Slab))
            if slab == NULL:
                raise MemoryError("no memory for the list of slabs")
            self.slab = slab
            slab = &self.slab[self.n_slabs]
            slab.data = <char*>map_huge(whole)
            if slab.data == NULL:
                return NULL
            slab.nbytes = whole
            slab.used = 0
            self.n_slabs += 1
        slab = &self.slab[self.n_slabs - 1]
        slab.used += nbytes
        return slab.data + slab.used - nbytes

    cdef char* new_table(self, size_t items, size_t size, char** allocated) except NULL:
        """Zeroed items, and what `free` gets at the end: NULL if they are in a slab."""
        cdef char* found = self.from_slab(items * size) if self.large else NULL
        allocated[0] = NULL
        if found == NULL:
            allocated[0] = zeroed(items, size)
            found = aligned(allocated[0], items * size)
        return found

    cdef int add(self, char* data, size_t nbytes, void** slot, char* allocated, bint state, size_t size) except -1:
        cdef Block* b
        if self.n == self.room:
            b = <Block*>realloc(self.block, (2 * self.room + 16) * sizeof(Block))
            if b == NULL:
                raise MemoryError("no memory for the list of tables")
            self.block = b
            self.room = 2 * self.room + 16
        b = &self.block[self.n]
        b.data = data
        b.nbytes = nbytes
        b.slot = slot
        b.allocated = allocated
        b.state = state
        b.size = size
        b.keep = size
        self.n += 1
        return 0

    cdef int own(self, void** slot, size_t items, size_t size, bint state=True) except -1:
        """Let `slot[0]` point to a new table of `items` zeroed items of `size` bytes."""
        cdef char* allocated
        slot[0] = self.new_table(items, size, &allocated)
        return self.add(<char*>slot[0], items * size, slot, allocated, state, size)

    cdef void keep_before(self, void* place):
        """In the table that was requested last, the fields before a location in the first item are state, and so are those of every
        item."""
        self.block[self.n - 1].keep = <char*>place - self.block[self.n - 1].data

    cdef Block* block_of(self, void** slot):
        """The block of a table. Tables grow mostly in the order in which they were made, so the search begins after the last one."""
        cdef size_t k = self.found
        while self.block[k].slot != slot:
            k = k + 1 if k + 1 < self.n else 0
        self.found = k
        return &self.block[k]

    cdef int grow(self, void** slot, size_t items, size_t size) except -1:
        """Give the table at `slot[0]`, which contains no pointers, additional zeroed items; the table may move."""
        cdef Block* b = self.block_of(slot)
        cdef char* allocated
        slot[0] = self.new_table(items, size, &allocated)
        memcpy(slot[0], b.data, min(b.nbytes, items * size))
        free(b.allocated)
        b.allocated = allocated
        b.data = <char*>slot[0]
        b.nbytes = items * size
        return 0

    cdef int clear(self, void** slot, bint state) except -1:
        """Zero a table, and set whether it is state from now on."""
        cdef Block* b = self.block_of(slot)
        memset(b.data, 0, b.nbytes)
        b.state = state
        return 0

    cdef int adopt(self, void* data, size_t nbytes) except -1:
        """Make state that is stored elsewhere a part of snapshots; the arena does not free it."""
        return self.add(<char*>data, nbytes, NULL, NULL, True, nbytes)

    cdef int alias(self, void** slot, void* data) except -1:
        """Let `slot[0]` point to a table that another pointer owns."""
        slot[0] = data
        return self.add(<char*>data, 0, slot, NULL, False, 1)

    cdef size_t state_bytes(self):
        cdef size_t total = 0, k
        for k in range(self.n):
            if self.block[k].state:
                total += self.block[k].nbytes // self.block[k].size * self.block[k].keep
        return total

    cpdef bytes dump(self):
        """Return all state, table after table; pointers are written as zero."""
        cdef size_t k, i, at = 0
        cdef bytes out = PyBytes_FromStringAndSize(NULL, self.state_bytes())
        cdef char* to = out
        cdef char* slot
        for k in range(self.n):
            if self.block[k].state:
                self.block[k].image = at
                at += copy_items(to + at, &self.block[k], True)
        k = 0
        for i in range(self.n):
            slot = <char*>self.block[i].slot
            if slot == NULL:
                continue
            if not self.holds(k, slot):           # neighbours are usually in the same table: search further only if they are not
                k = 0
                while k < self.n and not self.holds(k, slot):
                    k += 1
                if k == self.n:
                    k = 0
                    continue
            memset(to + self.block[k].image + place_of(&self.block[k], slot), 0, sizeof(void*))
        return out

    cdef bint holds(self, size_t k, char* slot):
        cdef Block* b = &self.block[k]
        return b.state and b.data <= slot < b.data + b.nbytes and <size_t>(slot - b.data) % b.size < b.keep

    cpdef object load(self, bytes image):
        """Restore a `dump` of a run with the same tables; ValueError if the sizes differ."""
        cdef size_t total = self.state_bytes(), k, at = 0
        cdef char* source = image
        if total != <size_t>len(image):
            raise ValueError(f"the snapshot has {len(image)} bytes, this run's state {total}")
        for k in range(self.n):
            if self.block[k].state:
                at += copy_items(source + at, &self.block[k], False)
        for k in range(self.n):
            if self.block[k].slot != NULL:
                self.block[k].slot[0] = self.block[k].data
