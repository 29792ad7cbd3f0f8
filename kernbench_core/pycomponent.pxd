"""What components written in Python are made of, for compiled classes that derive from it."""
from libc.stdint cimport uintptr_t

from kernbench_core.abi cimport kb_core_api, kb_engine_ops
from kernbench_core.types cimport int32_t, int64_t

cdef class Plugged:
    cdef kb_engine_ops ops
    cdef const kb_core_api* api
    cdef object step_method
    cdef bytes name
    cdef bint plugged
    cdef readonly object failure  # what a method raised, or None
    cdef public object spec       # its parameters: of `Component`, which has no room of its own for classes that have two bases

    cpdef submit(self, int32_t kind, int32_t engine, params=*, regions=*, int32_t opcode=*)
    cpdef started(self, int64_t job)
    cdef int check_called(self) except -1
    cdef int64_t said(self, int64_t status) except? -1
    cdef uintptr_t plug(self) except 0
    cdef bint has(self, str method)
