cdef class Sum:
    cdef long long _low
    cdef object _high

    cdef add(self, long long number)

    cpdef value(self)


cdef long long _LIMIT
