cimport cython
from libc.stdint cimport int64_t

from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport DmaReadCmd
from kernbench.common.queue_ops cimport IpcqRecvCmd, IpcqSendCmd
from kernbench.components.base cimport Typed
from kernbench.components.builtin.flight cimport Flight, Reach
from kernbench.components.builtin.ipcq_ring cimport QueueClock, Ring
from kernbench.components.builtin.part cimport Serving
from kernbench.components.builtin.pe_dma cimport Transfers
from kernbench.components.builtin.pe_scheduler cimport CommandQueue

cdef class QueueControl(Serving):
    cdef long long _cycles, _count, _first_cycle, _first_order
    cdef Ring _first
    cdef public Transfers _dma
    cdef list _later
    cdef public QueueClock time
    cdef public CommandQueue scheduler
    cdef public object record_copy
    cdef public long long component
    cdef public list done
    cdef public dict queues_out, queues_in

    @cython.locals(message=IpcqSendCmd, tile=TensorHandle, ready="long long", ring=Ring, lead=Ring)
    cpdef begin(self, Flight flight, long long now)

    @cython.locals(reach=Reach)
    cpdef int64_t send(self, Typed processor, Flight flight) except? -1

    cpdef look(self, long long cycle, object ring)

    cdef bint _expect(self, long long cycle, object ring) except -1

    @cython.locals(ring=Ring)
    cpdef deliver(self, long long now)

    @cython.locals(message=IpcqSendCmd, credit="long long", flight=Flight)
    cdef _send(self, Ring ring, long long now)

    @cython.locals(place="long long", before="long long", travel="long long", first="long long", flight=Flight, receiver=Serving)
    cdef _move(self, Ring ring, IpcqSendCmd message)

    @cython.locals(flight=Flight, message=IpcqSendCmd, msg=IpcqRecvCmd)
    cdef _receive(self, Ring ring, long long now)

    @cython.locals(receive=IpcqRecvCmd, ring=Ring)
    cpdef ended(self, Flight flight)

    @cython.locals(ring=Ring, oldest=IpcqSendCmd, first=Flight, came=bint, receiver=Serving)
    cdef _arrived(self, IpcqSendCmd message, Flight flight)

    @cython.locals(message=IpcqSendCmd, read=DmaReadCmd)
    cdef _taken(self, IpcqRecvCmd msg, Flight flight)

    @cython.locals(ring=Ring)
    cdef _record_arrival(self, IpcqSendCmd message, Flight flight, object record_copy)
