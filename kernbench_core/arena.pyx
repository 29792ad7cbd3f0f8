"""Zeroed tables with one owner.

Every table is asked for together with the place that will point to it. So a snapshot knows which words of the tables are pointers:
they are written as zero, and kept as they are when a snapshot is loaded. Two runs that stand alike have equal snapshots.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset


cdef class Arena:
    def __dealloc__(self):
        cdef size_t k
        for k in range(self.n):
            if self.block[k].owned:
                free(self.block[k].data)
        free(self.block)

    cdef int add(self, char* data, size_t nbytes, void** slot, bint owned, bint state) except -1:
        cdef Block* grown
        if self.n == self.room:
            grown = <Block*>realloc(self.block, (2 * self.room + 16) * sizeof(Block))
            if grown == NULL:
                raise MemoryError("no memory for the list of tables")
            self.block = grown
            self.room = 2 * self.room + 16
        self.block[self.n].data = data
        self.block[self.n].nbytes = nbytes
        self.block[self.n].slot = slot
        self.block[self.n].owned = owned
        self.block[self.n].state = state
        self.n += 1
        return 0

    cdef int own(self, void** slot, size_t items, size_t size, bint state=True) except -1:
        """Let `slot[0]` point to a new table of `items` zeroed items of `size` bytes."""
        cdef char* data = <char*>calloc(items if items else 1, size)
        if data == NULL:
            raise MemoryError(f"no memory for a table of {items} items of {size} bytes")
        slot[0] = data
        return self.add(data, items * size, slot, True, state)

    cdef int grow(self, void** slot, size_t items, size_t size) except -1:
        """Give the table at `slot[0]`, in which no slot stands, more items, zeroed; it may move."""
        cdef size_t k = 0
        cdef char* data
        while self.block[k].slot != slot:
            k += 1
        data = <char*>realloc(self.block[k].data, items * size if items else size)
        if data == NULL:
            raise MemoryError(f"no memory for a table of {items} items of {size} bytes")
        if items * size > self.block[k].nbytes:
            memset(data + self.block[k].nbytes, 0, items * size - self.block[k].nbytes)
        slot[0] = data
        self.block[k].data = data
        self.block[k].nbytes = items * size
        return 0

    cdef int adopt(self, void* data, size_t nbytes) except -1:
        """Make state that lives elsewhere a part of snapshots; it is not freed here."""
        return self.add(<char*>data, nbytes, NULL, False, True)

    cdef int alias(self, void** slot, void* data) except -1:
        """Let `slot[0]` point to a table that another slot owns."""
        slot[0] = data
        return self.add(<char*>data, 0, slot, False, False)

    cdef size_t state_bytes(self):
        cdef size_t total = 0, k
        for k in range(self.n):
            if self.block[k].state:
                total += self.block[k].nbytes
        return total

    cpdef bytes dump(self):
        """All state, table after table; pointers are zero."""
        cdef size_t k, i, at = 0
        cdef bytes out = PyBytes_FromStringAndSize(NULL, self.state_bytes())
        cdef char* to = out
        cdef char* slot
        for k in range(self.n):
            if self.block[k].state:
                memcpy(to + at, self.block[k].data, self.block[k].nbytes)
                self.block[k].image = at
                at += self.block[k].nbytes
        k = 0
        for i in range(self.n):
            slot = <char*>self.block[i].slot
            if slot == NULL:
                continue
            if not self.holds(k, slot):           # neighbours lie in one table: look further only where they do not
                k = 0
                while k < self.n and not self.holds(k, slot):
                    k += 1
                if k == self.n:
                    k = 0
                    continue
            memset(to + self.block[k].image + (slot - self.block[k].data), 0, sizeof(void*))
        return out

    cdef bint holds(self, size_t k, char* slot):
        return self.block[k].state and self.block[k].data <= slot < self.block[k].data + self.block[k].nbytes

    cpdef object load(self, bytes image):
        """Put a `dump` of a run with the same tables back; ValueError where the sizes differ."""
        cdef size_t total = self.state_bytes(), k, at = 0
        cdef const char* source = image
        if total != <size_t>len(image):
            raise ValueError(f"the snapshot has {len(image)} bytes, this run's state {total}")
        for k in range(self.n):
            if self.block[k].state:
                memcpy(self.block[k].data, source + at, self.block[k].nbytes)
                at += self.block[k].nbytes
        for k in range(self.n):
            if self.block[k].slot != NULL:
                self.block[k].slot[0] = self.block[k].data
