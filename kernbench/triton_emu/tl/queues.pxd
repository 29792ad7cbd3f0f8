cimport cython

from kernbench.common.queue_ops cimport IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.ipcq_ring cimport Ring, SlotBlock
from kernbench.triton_emu.handle cimport KernelTensor
from kernbench.triton_emu.kernel_runner cimport KernelRunner
from kernbench.triton_emu.tl.memory cimport Completion
from kernbench.triton_emu.tl.waits cimport TlWaits

cdef class TlQueues(TlWaits):
    @cython.locals(runner=KernelRunner, ring=Ring, sent=KernelTensor, msg=IpcqSendCmd, done=Completion)
    cpdef Completion _send(self, object direction, object tile, object plane, object line)

    @cython.locals(runner=KernelRunner, ring=Ring, tile=KernelTensor, msg=IpcqRecvCmd, lengths=tuple, kept=SlotBlock, nbytes="long long",
                   number="long long", slot="long long")
    cpdef KernelTensor _receive(self, object direction, object shape, object dtype, object plane, object line)

    cpdef Ring _ring(self, dict queues, object direction, object plane, object line)


@cython.locals(tile=KernelTensor, message=IpcqSendCmd, ring=Ring)
cpdef take(IpcqRecvCmd msg)
