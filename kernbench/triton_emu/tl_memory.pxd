cimport cython

from kernbench.components.builtin.flight cimport Flight
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.kernel_runner cimport KernelRunner
from kernbench.triton_emu.scratchpad cimport Block

cdef class Completion:
    cdef public Flight flight
    cdef public object handle_id
    cdef public object op_id

cdef class TlMemory:
    cdef public KernelRunner _runner
    cdef public object _translation
    cdef public long long _count
    cdef public tuple _after

    @cython.locals(tile=KernelTensor, size="long long")
    cpdef KernelTensor _new(self, tuple shape, object dtype, long long nbytes, object line, long long travel=*, object name=*)

    cpdef Block _take(self, long long nbytes, tuple who)

    cpdef _in_memory(self, object addr, tuple shape, object steps, object dtype, object nbytes, object line)
