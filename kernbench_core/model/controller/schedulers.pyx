"""The rules `fcfs` to `oldest_ready_hits` of docs/model/dram_controller.md, C5. A new rule is a function and a line in the
table."""
from kernbench_core.model.controller.timing cimport PRE, RD, WR, BankState
from kernbench_core.types cimport NEVER, int32_t


cdef void mark_queue(Channel* c, Request* queue, int32_t n) noexcept nogil:
    """For each bank: find the row of the oldest burst of the queue, and count the bursts that need the open row."""
    cdef int32_t k
    cdef BankState* b
    c.scans += 1
    for k in range(n):
        if not queue[k].whole:
            continue
        b = &c.device.bank[queue[k].bank]
        if b.scan != c.scans:
            b.scan = c.scans
            b.oldest_row = queue[k].row
            b.hits = 0
            b.hit_queued_at = NEVER
        if b.row == queue[k].row:
            if b.hits == 0:
                b.hit_queued_at = queue[k].came
            b.hits += 1


cdef bint only_oldest(Controllers* d, Channel* c, Request* q, int32_t command, bint first) noexcept nogil:
    """`fcfs`: no command for a burst that has an older one in the queue."""
    return first and (c.n_active == 0 or (command != RD and command != WR))


cdef bint open_rows(Controllers* d, Channel* c, Request* q, int32_t command, bint first) noexcept nogil:
    """`fr_fcfs`: a row is not closed while a burst needs it."""
    return command != PRE or c.device.bank[q.bank].hits == 0


cdef bint open_rows_capped(Controllers* d, Channel* c, Request* q, int32_t command, bint first) noexcept nogil:
    """`fr_fcfs_cap`: the same, until `cap` bursts have passed the oldest burst of the bank."""
    cdef BankState* b = &c.device.bank[q.bank]
    cdef bint enough = b.passed >= d.cap and b.oldest_row != b.row
    if command == PRE:
        return enough or b.hits == 0
    return not (enough and (command == RD or command == WR))


cdef bint anything(Controllers* d, Channel* c, Request* q, int32_t command, bint first) noexcept nogil:
    """`oldest_ready`: any command."""
    return True


cdef bint older_hits(Controllers* d, Channel* c, Request* q, int32_t command, bint first) noexcept nogil:
    """`oldest_ready_hits`: a row is not closed while a burst needs it that is not younger."""
    return command != PRE or c.device.bank[q.bank].hit_queued_at > q.came


CONTROLLER_SCHEDULERS[<int>CONTROLLER_FR_FCFS_CAP] = SchedulerPolicy(open_rows_capped, True, True)
CONTROLLER_SCHEDULERS[<int>CONTROLLER_FR_FCFS] = SchedulerPolicy(open_rows, True, True)
CONTROLLER_SCHEDULERS[<int>CONTROLLER_FCFS] = SchedulerPolicy(only_oldest, False, False)
CONTROLLER_SCHEDULERS[<int>CONTROLLER_OLDEST_READY] = SchedulerPolicy(anything, False, False)
CONTROLLER_SCHEDULERS[<int>CONTROLLER_OLDEST_READY_HITS] = SchedulerPolicy(older_hits, False, True)
