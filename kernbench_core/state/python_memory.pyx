"""Huge pages for the objects of Python.

The kernels of a machine of many PEs are Python objects in memory of many pages, and each event touches those of another PE. A page has its
translation in a small cache of the processor; with small pages, most events begin with translations that are not there
(docs/adr/0079-huge-pages.md).
"""
from contextlib import contextmanager, nullcontext

from kernbench_core.state.arena cimport LARGE


cdef extern from "state/huge_pages.h":
    void* map_huge "kb_map_huge"(size_t nbytes)
    void unmap "kb_unmap"(void* data, size_t nbytes)

cdef extern from "Python.h":
    ctypedef struct PyObjectArenaAllocator:
        void* ctx
        void* (*alloc)(void* ctx, size_t size) noexcept
        void (*free)(void* ctx, void* data, size_t size) noexcept
    void PyObject_GetArenaAllocator(PyObjectArenaAllocator* allocator)
    void PyObject_SetArenaAllocator(PyObjectArenaAllocator* allocator)

cdef enum:
    REGION = 32 << 20         # [B] that are requested from the system at a time
    PAGE = 4096               # [B] of a small page
    LARGEST = 4 << 20         # [B] larger requests go to Python's own function

cdef PyObjectArenaAllocator own      # Python's own functions
cdef int users = 0                   # runs that use huge pages now
cdef char* region = NULL             # the last region, of which a part may be left
cdef size_t left = 0                 # [B] that are left of it, at its end


cdef void* in_huge_pages(void* ctx, size_t size) noexcept:
    """Memory for Python's objects: the next part of a region."""
    global region, left
    if size % PAGE or size > LARGEST:
        return own.alloc(own.ctx, size)
    if left < size:
        if left:
            unmap(region + REGION - left, left)
            left = 0
        region = <char*>map_huge(REGION)
        if region == NULL:
            return own.alloc(own.ctx, size)
        left = REGION
    left -= size
    return region + REGION - left - size


def memory_of(int pes):
    """A context for the run of a machine of this many PEs: large machines use `huge_pages`."""
    return huge_pages() if pes >= LARGE else nullcontext()


@contextmanager
def huge_pages():
    """Inside the `with` block, new memory of Python's objects is in huge pages, where the system has some.

    Memory is freed as always: what Python's own functions free are parts of mapped memory.

    >>> with huge_pages():
    ...     len([object() for _ in range(1000)])
    1000
    """
    global users
    cdef PyObjectArenaAllocator ours
    if users == 0:
        PyObject_GetArenaAllocator(&own)
        ours.ctx, ours.alloc, ours.free = own.ctx, in_huge_pages, own.free
        PyObject_SetArenaAllocator(&ours)
    users += 1
    try:
        yield
    finally:
        users -= 1
        if users == 0:
            PyObject_SetArenaAllocator(&own)
