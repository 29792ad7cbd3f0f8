"""`fr_fcfs` of docs/model/dram_rows.md, R5: first ready, first come, first served; bursts of open rows go first."""
from kernbench_core.model.dram.device cimport Bank
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices, Fetch
from kernbench_core.model.dram.scheduler.candidate cimport column_ready, mark_burst
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t

cdef inline void mark_up_to(Devices* d, Controller* c, int32_t most) noexcept nogil:
    """A candidate is the first burst of each flow whose row is open, if the oldest burst of its bank needs this row too, or if
    fewer than `most` bursts have passed the oldest."""
    cdef int64_t scan = d.scans
    cdef Bank* bank = c.device.bank
    cdef Fetch* fetch = d.fetch
    cdef Burst* queue = c.queue
    cdef Burst* q
    cdef Bank* b
    cdef int32_t k, n = c.queued
    for k in range(n):
        q = &queue[k]
        b = &bank[q.bank]
        mark_burst(q, b, scan)
        q.candidate = fetch[q.flow].marked != scan and b.row == q.row and (b.oldest_row == q.row or b.passed < most)
        fetch[q.flow].marked = scan
        b.candidates += q.candidate

cdef extern from "<stdint.h>":
    const int32_t INT32_MAX

cdef inline void mark_open(Devices* d, Controller* c) noexcept nogil:
    """Any number of bursts may pass an older burst of another row."""
    mark_up_to(d, c, INT32_MAX)

cdef inline int32_t oldest_of_batch(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil:
    """Reads and writes are served in batches: the kind of the last command continues for `batch_bursts` bursts, if both kinds
    are waiting. Within this kind, the oldest candidate is served."""
    cdef Burst* queue = c.queue
    cdef int32_t k, write, found = 0    # 1: there are reads, 2: writes, 3: both
    cdef int32_t[2] chosen              # the oldest read and the oldest write that are allowed now
    cdef cycle_t[2] first               # the cycle from which a read, or a write, that is not allowed now is allowed
    cdef cycle_t at
    chosen[0] = chosen[1] = NONE
    first[0] = first[1] = NEVER
    for k in range(c.queued):
        if not queue[k].candidate:
            continue
        write = queue[k].write
        found |= 1 << write
        if chosen[write] != NONE:
            continue
        at = column_ready(d, c, queue[k].bank, write)
        if at <= now:
            chosen[write] = k
        else:
            first[write] = min(first[write], at)
    write = found == 2
    if found == 3:
        write = not c.writes if c.streak >= d.batch else c.writes
    soonest[0] = first[write]
    return chosen[write]
