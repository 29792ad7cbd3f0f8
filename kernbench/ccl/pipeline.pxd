cimport cython

from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.kernel_runner cimport KernelRunner
from kernbench.triton_emu.tl.waits cimport TlWaits

cdef class _Running:
    cdef public object turns
    cdef public bint late, over
    cdef public object wanted

    @cython.locals(tile=KernelTensor, tl=TlWaits, runner=KernelRunner)
    cdef bint _waited(self, object said) except -1


@cython.locals(one=_Running)
cdef bint _all_late(list running) except -1
