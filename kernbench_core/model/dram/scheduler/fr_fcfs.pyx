"""The scheduler `fr_fcfs` of docs/model/dram_rows.md: open rows go first, as long as there are bursts for them."""
from kernbench_core.model.dram.scheduler.candidate cimport column_ready
from kernbench_core.types cimport NEVER, NONE

cdef extern from "<stdint.h>":
    const int32_t INT32_MAX


cdef void mark_open(Devices* d, Controller* c) noexcept nogil:
    """Any number of bursts may pass an older one of another row."""
    mark_up_to(d, c, INT32_MAX)


cdef int32_t oldest_of_batch(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil:
    """Reads and writes go in batches: of both kinds the same as last, `batch_bursts` times. Of that kind the oldest candidate."""
    cdef Burst* queue = c.queue
    cdef int32_t k, write, found = 0    # 1: there are reads, 2: writes, 3: both
    cdef int32_t[2] chosen              # the oldest read and the oldest write that are allowed now
    cdef cycle_t[2] first               # from which cycle on one of those is that are not
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
