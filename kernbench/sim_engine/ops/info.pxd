cimport cython

from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd, Repeated
from kernbench.sim_engine.ops.params cimport Form, OpValues, Template

cdef dict _ROWS
cdef Form _DMA_READ
cdef Form _DMA_WRITE
cdef Form _COPY
cdef Form _WRITE
cdef Form _GEMM

cpdef tuple op_row(object msg, tuple snapshots)


@cython.locals(to=TensorHandle, repeated=Repeated)
cdef Template _read_template(DmaReadCmd msg)


@cython.locals(to=TensorHandle)
cpdef tuple dma_read_row(DmaReadCmd msg, tuple snapshots)


@cython.locals(to=TensorHandle)
cpdef put_dma_read(OpValues row, DmaReadCmd msg)


@cython.locals(source=TensorHandle)
cdef Template _write_template(DmaWriteCmd msg)


@cython.locals(source=TensorHandle)
cpdef tuple dma_write_row(DmaWriteCmd msg, tuple snapshots)


@cython.locals(source=TensorHandle)
cpdef put_dma_write(OpValues row, DmaWriteCmd msg, tuple snapshots)

cpdef tuple copy_row(tuple source, tuple target, tuple shape, object dtype, object nbytes, object line, object data)


@cython.locals(a=TensorHandle, b=TensorHandle, out=TensorHandle, acc=TensorHandle)
cpdef tuple _gemm_parts(GemmCmd msg, object line)


@cython.locals(repeated=Repeated)
cpdef tuple gemm_row(GemmCmd msg, tuple snapshots)


@cython.locals(repeated=Repeated, a=TensorHandle, b=TensorHandle, out=TensorHandle, acc=TensorHandle)
cpdef put_gemm(OpValues row, GemmCmd msg)


@cython.locals(out=TensorHandle, one=TensorHandle, handles=list)
cpdef tuple _math_parts(MathCmd msg, object line, tuple snapshots)

cpdef tuple math_row(MathCmd msg, tuple snapshots)
