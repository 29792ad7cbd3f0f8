cimport cython

from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd, Repeated
from kernbench.sim_engine.ops.params cimport Form

cdef dict _ROWS
cdef Form _DMA_READ
cdef Form _DMA_WRITE
cdef Form _COPY
cdef Form _WRITE
cdef Form _GEMM

cpdef tuple op_row(object msg, tuple snapshots)


@cython.locals(to=TensorHandle, repeated=Repeated)
cpdef tuple dma_read_row(DmaReadCmd msg, tuple snapshots)


@cython.locals(source=TensorHandle)
cpdef tuple dma_write_row(DmaWriteCmd msg, tuple snapshots)

cpdef tuple copy_row(tuple source, tuple target, tuple shape, object dtype, object nbytes, object line, object data)


@cython.locals(a=TensorHandle, b=TensorHandle, out=TensorHandle, acc=TensorHandle)
cpdef tuple _gemm_parts(GemmCmd msg, object line)


@cython.locals(a=TensorHandle, b=TensorHandle, out=TensorHandle, acc=TensorHandle)
cdef tuple _gemm_values(GemmCmd msg)


@cython.locals(repeated=Repeated, name=object)
cpdef tuple gemm_row(GemmCmd msg, tuple snapshots)


@cython.locals(out=TensorHandle, one=TensorHandle, handles=list)
cpdef tuple _math_parts(MathCmd msg, object line, tuple snapshots)

cpdef tuple math_row(MathCmd msg, tuple snapshots)
