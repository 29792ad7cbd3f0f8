"""The memory of a run, and its snapshot."""

cdef enum:
    LARGE = 64                # scratchpads of a machine whose PEs do not fit into the near caches of the host

cdef struct Block:
    char* allocated           # memory that the arena frees; NULL: another owner frees it
    char* data                # the table in that memory (state/arena.pyx, `aligned`)
    size_t nbytes             # [B] size of the block
    void** slot               # address of the pointer that points to the block
    size_t image              # offset at which `dump` wrote it
    bint state                # whether it changes during a run and is part of a snapshot
    size_t size               # [B] size of an item of the table
    size_t keep               # [B] of each item that a snapshot contains; the rest is constant, or follows from these bytes

cdef struct Slab:
    char* data                # memory of whole huge pages
    size_t nbytes             # [B] size of the slab
    size_t used               # [B] of the tables in it

cdef class Arena:
    cdef public bint large    # whether tables are in huge pages: of a machine whose tables do not fit into the caches
    cdef Slab* slab
    cdef size_t n_slabs
    cdef size_t found         # index of the block that `block_of` found last
    cdef Block* block
    cdef size_t n
    cdef size_t room
    cdef int own(self, void** slot, size_t items, size_t size, bint state=*) except -1
    cdef void keep_before(self, void* place)
    cdef int grow(self, void** slot, size_t items, size_t size) except -1
    cdef int alias(self, void** slot, void* data) except -1
    cdef int clear(self, void** slot, bint state) except -1
    cdef int adopt(self, void* data, size_t nbytes) except -1
    cdef size_t state_bytes(self)
    cdef bint holds(self, size_t k, char* slot)
    cdef Block* block_of(self, void** slot)
    cdef char* from_slab(self, size_t nbytes) except? NULL
    cdef char* new_table(self, size_t items, size_t size, char** allocated) except NULL
    cdef int add(self, char* data, size_t nbytes, void** slot, char* allocated, bint state, size_t size) except -1
    cpdef bytes dump(self)
    cpdef object load(self, bytes image)
