cimport cython

from kernbench.sim_engine.memory_store cimport MemoryStore
from kernbench.sim_engine.op_log cimport OpRow
from kernbench.sim_engine.ops.params cimport Template
from kernbench.sim_engine.ops.ranges cimport ReplayOp

cdef object _F32, _MATMUL, _ADD

cdef class TemplateOperand:
    cdef readonly Py_ssize_t where
    cdef readonly object space, dtype
    cdef readonly tuple shape, tensor
    cdef readonly long long nbytes
    cdef object _numpy

    cpdef read(self, MemoryStore store, ReplayOp op)

cdef class Move:
    cdef tuple _shape
    cdef object _dtype, _space, _snapshot, _read_strides, _write_strides, _read_lanes, _write_lanes, _rmw, _old
    cdef list _targets
    cdef TemplateOperand _source, _plain, _compare

    @cython.locals(values=tuple)
    cdef tuple run(self, MemoryStore store, ReplayOp op)

    cdef _from_memory(self, MemoryStore store, ReplayOp op)

cdef class Gemm:
    cdef public object form
    cdef TemplateOperand _a, _b, _acc
    cdef readonly tuple target, tensor
    cdef readonly long long nbytes
    cdef bint _epilogues, _plain, _f32, _products
    cdef readonly bint joins

    cpdef list operands(self, MemoryStore store, ReplayOp op)

    @cython.locals(read=list)
    cpdef tuple run(self, MemoryStore store, object wide, ReplayOp op)

cdef class Math:
    cdef list _inputs
    cdef readonly object operand_bytes
    cdef object _snapshots, _scalars, _pair
    cdef readonly tuple target

    @cython.locals(values=tuple, place=TemplateOperand)
    cdef list operands(self, MemoryStore store, ReplayOp op)

    cpdef result(self, ReplayOp op, list read)

cdef class Tasks:
    cdef MemoryStore _store
    cdef bint _batching
    cdef object _threads, _wide

    @cython.locals(op=ReplayOp)
    cpdef list of_ops(self, object ops)

    @cython.locals(op=ReplayOp)
    cpdef move(self, object ops)

    @cython.locals(math=Math, gemm=Gemm, nbytes="long long", tensor=tuple)
    cpdef run(self, ReplayOp op)

    @cython.locals(op=ReplayOp)
    cpdef run_in_order(self, object ops, object keep)

    @cython.locals(move=Move)
    cdef tuple _moved(self, ReplayOp op)

    cdef _put(self, ReplayOp op, tuple target, object result, long long nbytes, tuple tensor)

    @cython.locals(op=ReplayOp, gemm=Gemm)
    cpdef write(self, object task, object results)


@cython.locals(op=ReplayOp, row=OpRow, math=Math, threads="bint", computing="Py_ssize_t", components=set, times=set)
cpdef bint in_sequence(object ops) except -1


@cython.locals(plans=dict)
cdef _plan(ReplayOp op, object kind)
