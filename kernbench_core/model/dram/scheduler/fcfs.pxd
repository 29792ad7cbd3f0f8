"""`fcfs` of docs/model/dram_rows.md, R5: first come, first served; nothing passes an older burst."""
from kernbench_core.model.dram.device cimport Bank
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices
from kernbench_core.model.dram.scheduler.candidate cimport column_ready, mark_burst
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t

cdef inline void mark_oldest(Devices* d, Controller* c) noexcept nogil:
    """The only candidate is the oldest burst, if its row is open."""
    cdef int32_t k
    cdef Burst* q
    cdef Bank* b
    for k in range(c.queued):
        q = &c.queue[k]
        b = &c.device.bank[q.bank]
        mark_burst(q, b, d.scans)
        q.candidate = k == 0 and b.row == q.row
        b.candidates += q.candidate

cdef inline int32_t oldest(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil:
    """Reads and writes are served in the order of arrival."""
    cdef cycle_t at
    soonest[0] = NEVER
    if not (c.queued and c.queue[0].candidate):
        return NONE
    at = column_ready(d, c, c.queue[0].bank, c.queue[0].write)
    if at <= now:
        return 0
    soonest[0] = at
    return NONE
