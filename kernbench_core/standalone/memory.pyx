"""The core's memory side as the object that a stand-alone DMA engine uses: shares, routes, DRAM channels, banks.

It consists of the tables and phases of the loop, with only the transfers of one DMA engine.
"""
import numpy as np

from kernbench_core.state.arena cimport Arena
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport channel_bytes
from kernbench_core.state.layout cimport lay_out
from kernbench_core.fast.block cimport narrow_count
from kernbench_core.model.phases cimport complete_phase, share_due, share_phase, start_transfer
from kernbench_core.fast.paths cimport scratchpad_advance
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport BACKPRESSURE, NONE, int32_t, int64_t, slot_t

CHANNEL_NAMES = ("act_weight", "kv_load", "kv_store")


cdef class CoreMemory:
    """The memory side of engine `engine` of a machine, whose tables `kernbench.cmdq.lower_machine` makes.

    `flat_address(spm_bank, spm_offset)` returns a job's scratchpad address. There is room for `transfers` concurrent transfers.
    """
    cdef Sim sim
    cdef Arena arena
    cdef object flat_address
    cdef dict slots               # cmdq_id -> slot of a transfer
    cdef list unused
    cdef dict moved               # cmdq_id -> bytes moved before this cycle

    def __init__(self, dict machine not None, flat_address, *, int32_t engine=0, int32_t transfers=64):
        def same(value):
            return np.full(transfers, value, dtype=np.int64)
        none = np.zeros(0, dtype=np.int64)
        none2 = np.zeros((0, 4), dtype=np.int64)
        dma = {name: same(0) for name in ("channel", "write", "t_start", "dram_addr", "stride", "spm_addr", "memory", "route")}
        dma.update(engine=same(engine), group=same(-1), peer=same(-1), row_bytes=same(1), rows=same(1), entry=np.arange(transfers))
        compute = {name: none for name in ("engine", "init", "body", "finalize", "work", "regions", "entry")}
        compute.update(region_addr=none2, region_bytes=none2, region_write=none2)
        if machine.get("caches"):
            raise ValueError("a DMA engine by itself has no last-level cache: leave llc out of its machine")
        self.arena = Arena()
        lay_out(&self.sim, self.arena, machine, {
            "op": same(0), "job": np.arange(transfers), "waits": same(1), "after": np.zeros(transfers + 1, dtype=np.int64),
            "dependents": none, "dma": dma, "compute": compute})
        self.flat_address = flat_address
        self.slots = {}
        self.moved = {}
        self.unused = list(range(transfers - 1, -1, -1))

    cdef DmaJob* job_of(self, job) except NULL:
        return &self.sim.dma_job[<slot_t>self.slots[job.cmdq_id]]

    def bus_can_enqueue(self, job):
        """Fewer than queue_depth_per_master transfers of the job's channel are outstanding."""
        cdef DmaJob* j = &self.sim.dma_job[0]
        cdef int32_t channel = CHANNEL_NAMES.index(job.channel)
        return bool(self.sim.dma[j.engine].channel[channel].outstanding < self.sim.dma[j.engine].queue_depth)

    def enqueue(self, job, int64_t cycle):
        """Start the transfer: first its head latency, then its flows. ValueError if its bytes do not agree with its rows."""
        cdef slot_t slot = self.unused.pop()
        cdef DmaJob* j = &self.sim.dma_job[slot]
        cdef int32_t k
        self.slots[job.cmdq_id] = slot
        self.moved[job.cmdq_id] = 0
        j.channel = CHANNEL_NAMES.index(job.channel)
        j.write = job.direction == "write"
        j.route = (2 * j.engine + j.write) * self.sim.memory[j.memory].channels    # the same formula as in lower_program
        j.extent.dram_addr = job.dram_addr
        j.extent.rows = job.rows
        j.extent.row_bytes = job.bytes_total // job.rows
        j.extent.stride = job.stride_bytes
        j.extent.spm_addr = self.flat_address(job.spm_bank, job.spm_offset)
        channel_bytes(self.sim.channel_bytes, &self.sim.memory[j.memory], &j.extent)
        j.nbytes = 0
        for k in range(self.sim.memory[j.memory].channels):
            j.nbytes += self.sim.channel_bytes[k]
        if j.nbytes != job.bytes_aligned:
            raise ValueError(f"job {job.cmdq_id}: bytes_aligned = {job.bytes_aligned}, but its rows have {j.nbytes} aligned bytes")
        j.seq = job.sequence
        j.state = 0
        j.next = j.prev = NONE
        self.sim.dma[j.engine].pending += 1      # start_transfer removes it from a queue, in which it never was
        start_transfer(&self.sim, slot, cycle)

    def tick(self, int64_t cycle):
        """P4 to P7 of the cycle; return the bytes that moved, by cmdq_id."""
        cdef int32_t k
        cdef slot_t flow
        cdef int64_t left
        cdef DmaJob* j
        if share_due(&self.sim, cycle):
            share_phase(&self.sim, cycle)
        for k in range(self.sim.n_spm):
            self.sim.spm[k].done = cycle
            scratchpad_advance(&self.sim, k, cycle + 1)
        narrow_count(&self.sim)
        out = {}
        for cmdq_id, slot in self.slots.items():
            j = &self.sim.dma_job[<slot_t>slot]
            left = 0
            flow = j.flows
            while flow != NONE:
                left += self.sim.share.flow[flow].left
                flow = self.sim.share.flow[flow].sibling
            out[cmdq_id] = j.nbytes - left - self.moved[cmdq_id]
            self.moved[cmdq_id] = j.nbytes - left
        complete_phase(&self.sim, cycle)
        self.sim.control.n_finished = 0
        return out

    def backpressure(self, job):
        """Whether a flow of the transfer is out for backpressure."""
        return self.job_of(job).reason == BACKPRESSURE

    def dequeue(self, job):
        """Forget a transfer that is complete."""
        self.unused.append(self.slots.pop(job.cmdq_id))
        del self.moved[job.cmdq_id]
