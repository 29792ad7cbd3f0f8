from kernbench.common.pe_ops cimport Command

cdef class IpcqSendCmd(Command):
    cdef public object handle, ring, message

cdef class IpcqRecvCmd(Command):
    cdef public object handle, ring, message
    cdef public long long number, slot
