cimport cython


cdef class Packet:
    cdef readonly object transfer
    cdef readonly long long nbytes
    cdef object endpoint
    cdef readonly list ways
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
    cdef list due
    cdef long long asked

    cpdef at(self, long long time, object do, object what)
    cpdef run(self, long long now)
    cpdef long long next(self)


cdef class Worms:
    cdef object device
    cdef object torus
    cdef long long _packet_bytes
    cdef long long _link_packets
    cdef dict _known
    cdef Clock clock
    cdef object _open_flow
    cdef object _done
    cdef dict _queues
    cdef dict _holders
    cdef dict _waiting
    cdef dict _flows

    @cython.locals(most="long long", left="long long", size="long long", count="long long", request="long long", answer="long long")
    cpdef Py_ssize_t send(self, object transfer, long long now)
    cdef tuple _shape(self, object transfer, long long nbytes)
    cpdef _queue(self, Packet packet, long long now)
    cdef _start(self, Packet packet, long long now)
    cpdef _sent(self, Packet packet, long long now)
    cdef _unblock(self, Packet packet, long long now)

    @cython.locals(link=tuple, way=list, first="long long")
    cdef _advance(self, Packet packet, long long now)
    cdef _open(self, Packet packet, long long nbytes, long long rest, list way)

    @cython.locals(packet=Packet, rest="long long", way=list)
    cpdef ended(self, long long flow, long long now)

    @cython.locals(following=Packet, link=tuple)
    cdef _arrive(self, Packet packet, long long now)
