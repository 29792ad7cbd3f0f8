"""The table of arbiters of DMA engines (docs/model/dma.md, P3). A new rule is a function and a line in the table
(docs/how-to/add_a_rule.md)."""
from kernbench_core.model.dma cimport eligible_head
from kernbench_core.types cimport COMM, NONE, int32_t


cdef slot_t highest_score(DmaEngine* e, DmaJob* jobs) noexcept nogil:
    """`priority`: the eligible job with the highest score, and among those the one submitted first. All jobs of a channel have
    the same score."""
    cdef slot_t best = NONE, job
    cdef int32_t k, score = 0, tie = 0
    for k in range(COMM):
        job = eligible_head(e, jobs, k)
        if job == NONE:
            continue
        if best == NONE or e.limit[k].score > score or (e.limit[k].score == score and (
                e.limit[k].tie < tie or e.limit[k].tie == tie and jobs[job].seq < jobs[best].seq)):
            best = job
            score = e.limit[k].score
            tie = e.limit[k].tie
    return best


cdef slot_t next_channel(DmaEngine* e, DmaJob* jobs) noexcept nogil:
    """`round_robin`: the first eligible job of the channels in cyclic order, starting after the channel that last started a job."""
    cdef slot_t first = NONE, job
    cdef int32_t k
    for k in range(COMM):
        job = eligible_head(e, jobs, (e.turn + k) % COMM)
        if first == NONE:
            first = job
    return first


DMA_ARBITERS[<int>PRIORITY] = DmaArbiter(highest_score)
DMA_ARBITERS[<int>ROUND_ROBIN] = DmaArbiter(next_channel)


cdef slot_t dma_pick(DmaEngine* e, DmaJob* jobs) noexcept nogil:
    """The job that the engine's arbiter starts next; NONE if no job is eligible."""
    if e.pending == 0 or e.active - e.channel[COMM].outstanding >= e.max_concurrent:
        return NONE
    return DMA_ARBITERS[e.arbiter].pick(e, jobs)
