cimport cython

from kernbench.common.pe_ops cimport DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.common.queue_ops cimport IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.flight cimport Flight
from kernbench.components.builtin.ipcq_ring cimport Ring
from kernbench.components.builtin.pe_cpu cimport CommandSource
from kernbench.components.builtin.pe_scheduler cimport CommandQueue
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.memory.side cimport MemorySide
from kernbench.triton_emu.scratchpad cimport Scratchpad

cdef long long _NEVER
cdef long long _RUNS

cdef class KernelRunner(CommandSource):
    cdef public object pe
    cdef public CommandQueue scheduler
    cdef public MemorySide memory
    cdef public Scratchpad pad
    cdef public object group
    cdef list _slots
    cdef public long long scalar_cycles
    cdef public bint strict_wait
    cdef public long long now
    cdef public object error
    cdef public long long scalar_ops
    cdef public long long implicit_waits
    cdef public object implicit_wait
    cdef public object messages
    cdef public object on_placed
    cdef public object line_of
    cdef object _launches
    cdef object _make_context
    cdef object _launch
    cdef object _work
    cdef Py_ssize_t _next_program
    cdef bint _begun
    cdef tuple _before, _after
    cdef public object strands
    cdef public bint alone
    cdef public object waited
    cdef object _greenlet
    cdef bint _over
    cdef object _enter, _leave
    cdef object _failed
    cdef bint _dropped
    cdef object _reason
    cdef long long _since
    cdef Flight _wanted
    cdef bint _any

    cpdef bint resume(self, long long now) except -1

    cpdef bint ended(self, Flight flight) except -1

    cdef _switch(self, tuple given)

    @cython.locals(tile=KernelTensor, product=GemmCmd, op=MathCmd, read=DmaReadCmd, written=DmaWriteCmd)
    cdef _settle(self, object msg)

    cpdef Flight issue(self, object msg, object line)

    cpdef wait_for(self, Flight flight, object reason)

    cpdef wait_implicitly(self, Flight flight, object name, object line)

    cpdef pause(self, object reason, Flight flight=*, bint any_end=*, long long until=*)


cdef long long _visible(object msg) except -1


@cython.locals(tile=KernelTensor, message=IpcqSendCmd, ring=Ring)
cdef _take(IpcqRecvCmd msg)
