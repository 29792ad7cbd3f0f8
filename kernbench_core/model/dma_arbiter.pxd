"""The arbiters of DMA engines, by number: which eligible job an engine starts next."""
from kernbench_core.model.dma cimport DmaEngine, DmaJob
from kernbench_core.types cimport slot_t

cdef enum DmaArbiterRule:     # in the order of DMA_ARBITERS in kernbench/config/schema.py: append
    PRIORITY
    ROUND_ROBIN
    N_DMA_ARBITERS

cdef struct DmaArbiter:       # one arbiter
    # The job that starts next, from the channels before COMM; NONE if no job is eligible. The function calls `eligible_head` once
    # for each channel, because `dma_defer` uses what `eligible_head` records.
    slot_t (*pick)(DmaEngine* e, DmaJob* jobs) noexcept nogil

cdef DmaArbiter[<int>N_DMA_ARBITERS] DMA_ARBITERS  # indexed by `DmaArbiterRule`

cdef slot_t dma_pick(DmaEngine* e, DmaJob* jobs) noexcept nogil
