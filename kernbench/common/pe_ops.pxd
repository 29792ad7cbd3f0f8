from kernbench.common.handles cimport TensorHandle


cdef class OpIds:
    cdef long long _next

    cpdef new(self)

cdef class Repeated:
    cdef public object template, name, numpy

cdef class Command:
    cdef public bint _quiet
    cdef public object op_id, dependency_ids, line
    cdef public Repeated repeated

cdef class DmaReadCmd(Command):
    cdef public TensorHandle handle
    cdef public long long src_addr, nbytes, low, high
    cdef public Py_ssize_t fresh
    cdef public object src_space, src_strides, channel, lanes

cdef class DmaWriteCmd(Command):
    cdef public TensorHandle handle
    cdef public long long dst_addr, nbytes
    cdef public object dst_space, dst_strides, channel, lanes, rmw, old, compare

cdef class GemmCmd(Command):
    cdef public object a, b, out, acc, m, k, n, dtype_acc, transpose_a, transpose_b, layout_a, layout_b, layout_out, tile_k

cdef class MathCmd(Command):
    cdef public object op, inputs, out, axis, keep_dims, mask, other, dtype_acc, value
