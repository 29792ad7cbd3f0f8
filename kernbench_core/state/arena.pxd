"""The memory of a run, and its snapshot."""

cdef struct Block:
    char* allocated           # memory that the arena frees; NULL: another owner frees it
    char* data                # the table in that memory (state/arena.pyx, `aligned`)
    size_t nbytes             # [B] size of the block
    void** slot               # address of the pointer that points to the block
    size_t image              # offset at which `dump` wrote it
    bint state                # whether it changes during a run and is part of a snapshot
    size_t size               # [B] size of an item of the table
    size_t keep               # [B] of each item that a snapshot contains; the rest is constant, or follows from these bytes

cdef class Arena:
    cdef Block* block
    cdef size_t n
    cdef size_t room
    cdef size_t found         # index of the block that `block_of` found last
    cdef int own(self, void** slot, size_t items, size_t size, bint state=*) except -1
    cdef void keep_before(self, void* place)
    cdef int grow(self, void** slot, size_t items, size_t size) except -1
    cdef int alias(self, void** slot, void* data) except -1
    cdef int clear(self, void** slot, bint state) except -1
    cdef int adopt(self, void* data, size_t nbytes) except -1
    cdef size_t state_bytes(self)
    cdef bint holds(self, size_t k, char* slot)
    cdef Block* block_of(self, void** slot)
    cdef int add(self, char* data, size_t nbytes, void** slot, char* allocated, bint state, size_t size) except -1
    cpdef bytes dump(self)
    cpdef object load(self, bytes image)
