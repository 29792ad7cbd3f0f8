cimport cython

from kernbench.common.pe_ops cimport GemmCmd, Repeated
from kernbench.triton_emu.frames cimport caller, line_at
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.tl.memory cimport TlMemory

cdef class ProductLine(Repeated):
    cdef tuple shape_a, shape_b, shape, layouts
    cdef object type_a, type_b, type_acc, out_dtype, dtype_acc, transpose_a, transpose_b
    cdef object m, k, n, op, type_out

cdef class TlProducts(TlMemory):
    cdef dict _product_lines

    @cython.locals(one=KernelTensor, two=KernelTensor, total=KernelTensor, tile=KernelTensor, msg=GemmCmd, found=ProductLine,
                   type_acc=object)
    cdef KernelTensor multiplied(
        self, object a, object b, object frame, object acc=*, object out_dtype=*, object dtype_acc=*, object transpose_a=*,
        object transpose_b=*, KernelTensor out=*, tuple layouts=*)
