cimport cython

from kernbench.components.builtin.fifo cimport Fifo
from kernbench.components.builtin.flight cimport Reach

cdef class QueueClock:
    cdef public long long now
    cdef public object wake
    cdef public tuple ended


cdef class Ring:
    cdef public object source, target, target_name, sender, receiver, tier, last_send, last_recv, switch
    cdef public Fifo credits, waiting, in_flight, inbox, posted
    cdef public bint in_scratchpad
    cdef public long long slots, slot_bytes, room, line, credit_cycles, sent, received, taken, tail
    cdef public long long flag_cycles, data_bytes, line_bytes, slot_room
    cdef public object protocol
    cdef public tuple addresses
    cdef public Reach reach
    cdef public set freed
    cdef public list finished
    cdef public dict freed_by
    cdef public QueueClock clock

    cpdef long long travel(self, long long nbytes) except -1

    cpdef long long address(self, long long number) except -1

    @cython.locals(first=Ring)
    cpdef free(self, long long number)


@cython.no_gc
@cython.freelist(64)
cdef class SlotBlock:
    cdef Ring _ring
    cdef long long _number
    cdef public long long addr
