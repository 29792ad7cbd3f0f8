cimport cython

from kernbench.common.queue_ops cimport IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.ipcq_ring cimport Ring, SlotBlock
from kernbench.components.builtin.pe_ipcq cimport QueueControl
from kernbench.triton_emu.frames cimport caller, line_at
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.kernel_runner cimport KernelRunner
from kernbench.triton_emu.tl.memory cimport Completion
from kernbench.triton_emu.tl.waits cimport TlWaits

cdef class TlQueues(TlWaits):
    cdef Ring _last_out, _last_in
    cdef object _direction_out, _direction_in, _plane_out, _plane_in

    @cython.locals(runner=KernelRunner, queues=QueueControl, ring=Ring, sent=KernelTensor, msg=IpcqSendCmd, done=Completion)
    cdef Completion send_at(self, object direction, object tile, object plane, object line)

    @cython.locals(runner=KernelRunner, queues=QueueControl, ring=Ring, tile=KernelTensor, msg=IpcqRecvCmd, lengths=tuple,
                   kept=SlotBlock, nbytes="long long", number="long long", slot="long long")
    cdef KernelTensor receive_at(self, object direction, object shape, object dtype, object plane, object line)

    cdef Ring _ring(self, dict queues, object direction, object plane, object line)
