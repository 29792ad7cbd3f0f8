cimport cython

from kernbench.components.builtin.flight cimport Flight

cdef class QueueClock:
    cdef public long long now
    cdef public object wake


@cython.freelist(64)
cdef class Message:
    cdef public Flight flight
    cdef public long long ready, nbytes, src, slot, command
    cdef public object shape, dtype, value, line, op_id
    cdef public bint arrived

cdef class Ring:
    cdef public object source, target, target_name, sender, receiver, tier, last_send, last_recv
    cdef public object credits, waiting, in_flight, inbox, posted
    cdef public bint in_scratchpad
    cdef public long long slots, slot_bytes, room, line, credit_cycles, sent, received, taken, tail
    cdef public tuple addresses, way
    cdef public set freed
    cdef public QueueClock clock

    cpdef long long address(self, long long number) except -1

    cpdef free(self, long long number)


@cython.freelist(64)
cdef class SlotBlock:
    cdef Ring _ring
    cdef long long _number
    cdef readonly long long addr
