"""`fr_fcfs`: first ready, first come, first served: the oldest burst whose row is open."""
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices, Fetch
from kernbench_core.model.dram.device cimport Bank
from kernbench_core.model.dram.scheduler.candidate cimport mark_burst
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef void mark_open(Devices* d, Controller* c) noexcept nogil
cdef int32_t oldest_of_batch(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil

cdef inline void mark_up_to(Devices* d, Controller* c, int32_t most) noexcept nogil:
    """Candidates are the first burst of each flow, where its row is open and the oldest of its bank wants that row too, or fewer
    than `most` have passed that one."""
    cdef int64_t look = d.looks
    cdef Bank* bank = c.device.bank
    cdef Fetch* fetch = d.fetch
    cdef Burst* queue = c.queue
    cdef Burst* q
    cdef Bank* b
    cdef int32_t k, n = c.queued
    for k in range(n):
        q = &queue[k]
        b = &bank[q.bank]
        mark_burst(q, b, look)
        q.candidate = fetch[q.flow].marked != look and b.row == q.row and (b.wanted == q.row or b.passed < most)
        fetch[q.flow].marked = look
        b.candidates += q.candidate
