cdef class WideCache:
    cdef object _limit, _held, _lock
    cdef dict _known, _same

    cpdef get(self, object narrow)
