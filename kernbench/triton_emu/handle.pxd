from kernbench.common.handles cimport TensorHandle
from kernbench.components.builtin.flight cimport Flight
from kernbench.triton_emu.frames cimport caller

cdef class KernelTensor(TensorHandle):
    cdef public long long nbytes
    cdef public object _tl
    cdef public object block
    cdef public KernelTensor whole
    cdef public bint shared
    cdef public Flight flight
    cdef public object poison
    cdef public object marks
