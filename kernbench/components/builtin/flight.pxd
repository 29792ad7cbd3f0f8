cdef class Flight:
    cdef public object msg
    cdef public object part
    cdef public long long issued
    cdef public object line
    cdef public long long start
    cdef public long long end
    cdef public int engine
    cdef public int jobs_left
    cdef public tuple after
    cdef public long long command
    cdef public Flight parent
