from kernbench_core.pycomponent cimport Plugged

cdef class Clock:
    cdef object _num
    cdef object _den
    cdef readonly double now
    cpdef Clock at(self, cycle)

cdef class Typed(Plugged):
    cdef public object node_id
    cdef public object _op_logger
