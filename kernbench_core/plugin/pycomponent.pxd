"""The base of components written in Python, for compiled classes that derive from it."""
from libc.stdint cimport uintptr_t

from kernbench_core.plugin.abi cimport kb_core_api, kb_engine_ops
from kernbench_core.types cimport int32_t, int64_t

cdef int32_t hold(const kb_engine_ops* ops, int32_t held) noexcept nogil

cdef int64_t saved_snapshot(void* itself, void* buf, int64_t room) noexcept with gil
cdef int64_t saved_restore(void* itself, const void* buf, int64_t n) noexcept with gil

cdef class Saved:
    cdef readonly object failure  # the exception of a method, or None

cdef class Plugged(Saved):
    cdef kb_engine_ops ops
    cdef const kb_core_api* api
    cdef object step_method
    cdef bytes name
    cdef bint plugged
    cdef public object spec       # its parameters: a field of `Component`, which has no room for fields of classes with two bases

    cpdef submit(self, int32_t kind, int32_t engine, params=*, regions=*, int32_t opcode=*)
    cpdef int64_t submit_transfer(
        self, int32_t engine, int64_t channel, bint write, int64_t addr, int64_t nbytes, int64_t memory, int64_t route,
        int64_t place, int64_t travel, int64_t peer=*) except? -1
    cpdef int64_t submit_compute(
        self, int32_t kind, int32_t engine, tuple params, int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes, int64_t out,
        int64_t out_bytes) except? -1
    cpdef int64_t started(self, int64_t job) except? -1
    cdef bint refuses(self, int64_t now) except -1
    cdef int64_t woken(self, int64_t now) except? -1
    cdef int64_t told(self, int32_t notice, int64_t number, int64_t now) except? -1
    cdef int check_called(self) except -1
    cdef int64_t said(self, int64_t status) except? -1
    cdef uintptr_t plug(self) except 0
    cdef bint has(self, str method)
