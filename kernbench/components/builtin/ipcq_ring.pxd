cimport cython

from kernbench.common.queue_ops cimport IpcqSendCmd
from kernbench.components.builtin.fifo cimport Fifo
from kernbench.components.builtin.flight cimport Flight, Reach

cdef class QueueClock:
    cdef public long long now
    cdef public object wake
    cdef public tuple ended


cdef class Ring:
    cdef public object source, target, target_name, sender, receiver, tier, last_send, last_recv, switch
    cdef public Fifo messages
    cdef public Flight posted
    cdef Flight _last_posted
    cdef list _usable
    cdef public bint in_scratchpad
    cdef public long long slots, slot_bytes, first_slot, room, line, credit_cycles, sent, received, taken, tail
    cdef public long long waiting, in_flight, inbox, last_credit
    cdef public long long flag_cycles, data_bytes, line_bytes, slot_room
    cdef public object protocol
    cdef public Reach reach
    cdef public set freed
    cdef public list finished
    cdef public dict freed_by
    cdef public QueueClock clock

    cpdef long long travel(self, long long nbytes) except -1

    cpdef long long address(self, long long number) except -1

    cpdef put(self, IpcqSendCmd message)

    cpdef IpcqSendCmd next_message(self)

    cpdef long long next_credit(self) except -1

    cpdef start(self, IpcqSendCmd message)

    cdef post(self, Flight flight)

    @cython.locals(flight=Flight)
    cdef take_posted(self)

    @cython.locals(first=Ring, at="long long")
    cpdef free(self, long long number)


@cython.no_gc
@cython.freelist(64)
cdef class SlotBlock:
    cdef Ring _ring
    cdef long long _number
    cdef public long long addr
