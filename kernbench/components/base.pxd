from kernbench_core.plugin.pycomponent cimport Plugged

cdef class Clock:
    cdef long long _num
    cdef long long _den
    cdef readonly double now
    cpdef Clock at(self, long long cycle)

cdef class Typed(Plugged):
    cdef public object node_id
    cdef public object _op_logger
