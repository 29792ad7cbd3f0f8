cimport cython

from kernbench.common.handles cimport TensorHandle
from kernbench.common.queue_ops cimport IpcqSendCmd
from kernbench.components.builtin.fifo cimport Fifo
from kernbench.components.builtin.flight cimport Flight, Reach

cdef class QueueClock:
    cdef public long long now
    cdef public object wake
    cdef public tuple ended


@cython.freelist(64)
cdef class Message:
    cdef public Flight flight
    cdef public long long ready, nbytes, src, slot, command
    cdef public object shape, dtype, value, line, op_id
    cdef public bint arrived

    @cython.locals(msg=IpcqSendCmd, tile=TensorHandle)
    cdef _fill(self, Flight flight, long long ready)

cdef class Ring:
    cdef public object source, target, target_name, sender, receiver, tier, last_send, last_recv
    cdef public Fifo credits, waiting, in_flight, inbox, posted
    cdef public bint in_scratchpad
    cdef public long long slots, slot_bytes, room, line, credit_cycles, sent, received, taken, tail
    cdef public tuple addresses
    cdef public Reach way
    cdef public set freed
    cdef public dict freed_by
    cdef public QueueClock clock

    cpdef long long address(self, long long number) except -1

    cpdef free(self, long long number)


@cython.freelist(64)
cdef class SlotBlock:
    cdef Ring _ring
    cdef long long _number
    cdef readonly long long addr
