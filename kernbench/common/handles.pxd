cdef class TensorHandle:
    cdef public object known_name
    cdef public long long number
    cdef public long long addr
    cdef public object shape
    cdef public object dtype
    cdef public object space
    cdef public object value
    cdef public object op
    cdef public object line
    cdef public object op_id

    cpdef name(self)

    cpdef name_or_number(self)
