from kernbench.common.pe_ops cimport Command

cdef class IpcqSendCmd(Command):
    cdef public object handle, ring, flight, shape, dtype, value, parts, mismatch
    cdef public long long ready, nbytes, src, slot, command, visible
    cdef public bint arrived

cdef class IpcqRecvCmd(Command):
    cdef public object handle, ring, message
    cdef public long long number, slot
