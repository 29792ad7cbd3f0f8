from kernbench.common.handles cimport TensorHandle
from kernbench.components.builtin.flight cimport Flight
from kernbench.triton_emu.scratchpad cimport Block

cdef class KernelTensor(TensorHandle):
    cdef public long long nbytes
    cdef public object _tl
    cdef public Block block
    cdef public Flight flight
    cdef public object poison
