cimport cython

from kernbench.common.pe_ops cimport DmaReadCmd, MathCmd
from kernbench.common.queue_ops cimport IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.flight cimport Flight
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.kernel_runner cimport KernelRunner
from kernbench.triton_emu.scratchpad cimport Block

cdef class TlTiles:
    cdef public KernelRunner _runner
    cdef public object _translation
    cdef list _windows
    cdef public long long _count
    cdef public tuple _after
    cdef tuple _shape, _owner
    cdef object _dtype
    cdef long long _nbytes

    @cython.locals(tile=KernelTensor)
    cdef KernelTensor operand_tile(self, object value, object line)

    @cython.locals(tile=KernelTensor)
    cdef KernelTensor placed_tile(self, object value, object line)

    @cython.locals(flight=Flight, found=list)
    cdef list _writers(self, KernelTensor tile)

    cdef issue_for(self, object msg, KernelTensor tile, object line)

    @cython.locals(tile=KernelTensor)
    cdef KernelTensor result_tile(self, KernelTensor out, tuple shape, object dtype, object line, object op)

    @cython.locals(flight=Flight, open_one=Flight, whole=KernelTensor, users=list)
    cdef KernelTensor _into(self, KernelTensor out, tuple shape, object dtype, object line)

    @cython.locals(room=KernelTensor)
    cdef _place(self, KernelTensor tile, object line)

    @cython.locals(tile=KernelTensor, size="long long", who=tuple, block=Block)
    cdef KernelTensor new_tile(
        self, tuple shape, object dtype, long long nbytes, object line, long long travel=*, object name=*)

    cpdef Block _take(self, long long nbytes, tuple who, long long number=*)

    cdef long long size_of(self, tuple shape, object dtype, object line) except? -1


@cython.locals(axis="Py_ssize_t")
cpdef bint same_shape(tuple shape, tuple known) except -1


@cython.locals(send=IpcqSendCmd, receive=IpcqRecvCmd, math=MathCmd)
cdef bint _uses(object msg, KernelTensor tile) except -1


@cython.locals(receive=IpcqRecvCmd, math=MathCmd, read=DmaReadCmd)
cdef bint _writes(object msg, KernelTensor tile) except -1


@cython.locals(other=KernelTensor)
cdef bint _touch(object one, KernelTensor tile) except -1
