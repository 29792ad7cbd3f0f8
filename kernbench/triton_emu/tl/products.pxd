cimport cython

from kernbench.common.pe_ops cimport GemmCmd
from kernbench.triton_emu.frames cimport caller, line_at
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.tl.memory cimport TlMemory

cdef class TlProducts(TlMemory):
    cdef tuple _found

    @cython.locals(one=KernelTensor, two=KernelTensor, total=KernelTensor, tile=KernelTensor, msg=GemmCmd, found=tuple)
    cdef KernelTensor multiplied(
        self, object a, object b, object frame, object acc=*, object out_dtype=*, object dtype_acc=*, object transpose_a=*,
        object transpose_b=*, KernelTensor out=*, tuple layouts=*)
