cimport cython
from libc.stdint cimport int32_t, int64_t

from kernbench.components.base cimport Typed


cdef int32_t _FLOW
cdef int64_t _NEVER


cdef class Packet:
    cdef readonly object transfer
    cdef readonly long long nbytes
    cdef Py_ssize_t endpoint
    cdef readonly list routes
    cdef readonly list holds
    cdef long long kept
    cdef readonly long long sending
    cdef long long answer
    cdef long long held
    cdef long long flows
    cdef bint sent
    cdef int blocks
    cdef readonly long long queued_at
    cdef readonly long long sent_at
    cdef readonly long long flows_at
    cdef readonly long long arrived_at


cdef class Clock:
    cdef list _cycles
    cdef dict _due

    @cython.locals(actions=list)
    cpdef at(self, long long time, object do, object what)

    @cython.locals(time="long long")
    cpdef run(self, long long now)

    cpdef long long next(self)


cdef class Worms(Typed):
    cdef public object device
    cdef public object torus
    cdef public Clock clock
    cdef public dict packets, issued, ends
    cdef public long long left
    cdef long long _packet_bytes
    cdef long long _link_packets
    cdef dict _known, _links, _endpoints
    cdef long long _job
    cdef dict _packets_left
    cdef list _queues
    cdef list _holders
    cdef list _waiting
    cdef dict _flows
    cdef object _on_queue, _on_sent, _on_done

    cdef int64_t woken(self, int64_t now) except? -1

    cdef int64_t told(self, int32_t notice, int64_t number, int64_t now) except? -1

    @cython.locals(following=int64_t)
    cdef int64_t _next(self, int64_t now) except? -1

    @cython.locals(most="long long", left="long long", size="long long", count="long long", request="long long", answer="long long")
    cpdef send(self, object transfer, long long now)

    cdef tuple _shape(self, object transfer, long long nbytes)

    cpdef _queue(self, Packet packet, long long now)

    cdef _start(self, Packet packet, long long now)

    cpdef _sent(self, Packet packet, long long now)

    cdef _unblock(self, Packet packet, long long now)

    @cython.locals(link=Py_ssize_t, holders="long long", route=list, first="long long")
    cdef _advance(self, Packet packet, long long now)

    cdef _open(self, Packet packet, long long nbytes, long long rest, list route)

    @cython.locals(packet=Packet, rest="long long", route=list)
    cdef _ended(self, long long flow, long long now)

    @cython.locals(following=Packet, link=Py_ssize_t)
    cdef _leave(self, Packet packet, long long now)

    @cython.locals(left="long long")
    cpdef _arrived(self, Packet packet, long long now)
