cdef class QueueClock:
    cdef public long long now
    cdef public object wake
