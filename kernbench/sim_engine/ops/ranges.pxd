from kernbench.sim_engine.op_log cimport OpRow
from kernbench.sim_engine.ops.params cimport Template

cdef class ReplayOp:
    cdef readonly OpRow row
    cdef readonly object op_id
    cdef list _reads
    cdef list _writes


cdef bint _meet(list some, list others) except -1
