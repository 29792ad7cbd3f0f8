cimport cython

from kernbench.common.pe_ops cimport DmaReadCmd, DmaWriteCmd, Repeated
from kernbench.components.builtin.flight cimport Flight
from kernbench.triton_emu.frames cimport caller, line_at
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.kernel_runner cimport KernelRunner
from kernbench.triton_emu.memory.side cimport MemorySide
from kernbench.triton_emu.tl.tiles cimport TlTiles, same_shape

cdef long long _FAR
cdef dict _ALIGN

cdef class Completion:
    cdef public Flight flight
    cdef public object op_id
    cdef public object known_name
    cdef public long long number
    cdef public object target

cdef class Window:
    cdef readonly long long start, end, physical

cdef class LoadLine(Repeated):
    cdef tuple shape
    cdef object dtype, space
    cdef long long nbytes, align

cdef class TlMemory(TlTiles):
    cdef dict _load_lines

    @cython.locals(found=LoadLine)
    cdef LoadLine _load_line(self, object line, tuple shape, object dtype)

    cdef LoadLine _of_space(self, LoadLine repeated, object space, object line)

    @cython.locals(tile=KernelTensor, runner=KernelRunner, flight=Flight, msg=DmaReadCmd, repeated=LoadLine, nbytes="long long",
                   travel="long long", at="long long")
    cdef KernelTensor _load(
        self, object addr, tuple shape, object dtype, object line, object strides, bint wait, object channel, KernelTensor out)

    @cython.locals(tile=KernelTensor, runner=KernelRunner, flight=Flight, msg=DmaWriteCmd, done=Completion, nbytes="long long",
                   at="long long")
    cdef Completion store_at(self, object addr, object value, object line, object strides, bint wait, object channel)

    @cython.locals(runner=KernelRunner, memory=MemorySide, tile=KernelTensor, room=KernelTensor, flight=Flight,
                   read=DmaReadCmd, write=DmaWriteCmd)
    cpdef tuple swap(self, long long addr, tuple shape, object dtype, long long nbytes, object line, object change)

    @cython.locals(whole=KernelTensor, made=KernelTensor, bits="long long", elements="long long")
    cpdef KernelTensor part(self, object tile, object first, object count)

    @cython.locals(at="long long")
    cdef long long _aligned(self, object addr, object dtype, long long align, object line) except? -1

    @cython.locals(at="long long")
    cdef long long place_of(self, object addr, tuple shape, object steps, object dtype, long long nbytes, object line) except? -1

    cpdef long long _physical(self, object addr, long long nbytes, object line) except? -1

    @cython.locals(window=Window)
    cdef long long physical_at(self, long long at, long long nbytes, object line) except? -1


@cython.locals(at="long long")
cdef long long _number(object addr, object line) except? -1
