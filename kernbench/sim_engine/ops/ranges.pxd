cdef class ReplayOp:
    cdef readonly object record
    cdef readonly object op_id
    cdef readonly object deps
    cdef readonly object params
    cdef list _reads
    cdef list _writes


cdef bint _meet(list some, list others) except -1
