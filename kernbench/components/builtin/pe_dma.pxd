cimport cython

from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport DmaReadCmd
from kernbench.components.builtin.part cimport Serving

cdef class Transfers(Serving):
    cdef long long _align
    cdef long long _room
    cdef public object ways

    @cython.locals(read=DmaReadCmd, place="long long")
    cpdef orders(self, object msg)

    cpdef piece(self, long long channel, long long write, long long place, object addr, object nbytes, object line)

    @cython.locals(start="long long", end="long long", way=tuple, align="long long", travel="long long", last=tuple)
    cdef _straight(self, long long channel, long long write, long long place, long long first, long long nbytes)
