cimport cython

from kernbench.common.pe_ops cimport MathCmd
from kernbench.triton_emu.frames cimport caller, line_at
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.kernel_runner cimport KernelRunner
from kernbench.triton_emu.tl.products cimport TlProducts

cdef class TlMath(TlProducts):
    @cython.locals(operands=list, tensors=list, scalars=list, dtypes=list)
    cdef KernelTensor _elementwise(
        self, object op, tuple given, object frame, object out=*, object dtype=*, bint materialize=*)

    @cython.locals(tile=KernelTensor)
    cdef _value(self, object value, object line)

    @cython.locals(tile=KernelTensor, runner=KernelRunner, msg=MathCmd, placed=list)
    cdef KernelTensor computed(
        self, object op, object operands, tuple shape, object dtype, object line, KernelTensor out, dict how, bint materialize)


@cython.locals(tile=KernelTensor)
cdef bint _is_known(object operands, object dtype) except -1


@cython.locals(first=KernelTensor, tile=KernelTensor, shape=tuple)
cdef tuple _shape_of(object op, list tensors, object line)
