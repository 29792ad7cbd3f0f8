cimport cython

from kernbench.sim_engine.memory_store cimport MemoryStore
from kernbench.sim_engine.ops.ranges cimport ReplayOp
from kernbench.sim_engine.replay.gemm cimport GemmForm
from kernbench.sim_engine.replay.wide cimport WideCache

cdef class Place:
    cdef readonly Py_ssize_t where
    cdef readonly object space, shape, dtype
    cdef object _numpy

    cpdef read(self, MemoryStore store, ReplayOp op)

cdef class Move:
    cdef object _shape, _dtype, _snapshot, _space, _read_strides, _write_strides, _read_lanes, _write_lanes, _rmw, _old
    cdef list _targets
    cdef Place _source, _plain, _compare

    @cython.locals(values=tuple)
    cpdef run(self, MemoryStore store, ReplayOp op)

cdef class Gemm:
    cdef readonly GemmForm form
    cdef Place _a, _b, _acc
    cdef readonly tuple target
    cdef readonly bint _epilogues, stacks

    cpdef operands(self, MemoryStore store, ReplayOp op)

    cpdef run(self, MemoryStore store, WideCache wide, ReplayOp op)

cdef class Math:
    cdef list _inputs
    cdef object _snapshots, _scalars, _pair
    cdef readonly tuple target

cdef class Tasks:
    cdef MemoryStore _store
    cdef bint _batching
    cdef WideCache _wide
    cdef readonly list moved

    cpdef run(self, ReplayOp op)
