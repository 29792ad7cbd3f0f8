cimport cython
from libc.stdint cimport int64_t

from kernbench.common.handles cimport TensorHandle
from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport DmaReadCmd, DmaWriteCmd
from kernbench.components.base cimport Typed
from kernbench.components.builtin.flight cimport Flight, Reach
from kernbench.components.builtin.part cimport Serving

cdef class Transfers(Serving):
    cdef long long _align
    cdef readonly long long _room
    cdef public object memory_routes
    cdef bint _own_orders
    cdef Reach _read
    cdef Reach _written

    @cython.locals(read=DmaReadCmd, written=DmaWriteCmd, tile=TensorHandle, reach=Reach, addr="long long", nbytes="long long")
    cpdef bint plan(self, Flight flight) except -1

    @cython.locals(reach=Reach)
    cpdef int64_t send(self, Typed processor, Flight flight) except? -1

    cpdef piece(self, long long channel, long long write, long long place, object addr, object nbytes, object line)

    cdef Reach _reach(self, bint write)

    @cython.locals(align="long long")
    cdef long long _travel(self, long long first, long long nbytes)

    @cython.locals(reach=Reach, travel="long long")
    cdef _straight(self, long long channel, long long write, long long place, long long first, long long nbytes)
