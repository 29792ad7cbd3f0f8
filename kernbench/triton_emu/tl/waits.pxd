cimport cython

from kernbench.components.builtin.flight cimport Flight
from kernbench.triton_emu.frames cimport caller
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.tl.math cimport TlMath

cdef class TlWaits(TlMath):
    @cython.locals(flight=Flight)
    cdef wait_tile(self, KernelTensor tile)
