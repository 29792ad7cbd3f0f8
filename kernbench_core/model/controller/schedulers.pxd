"""The schedulers of DRAM controllers, by number (C5)."""
from kernbench_core.model.controller.requests cimport Channel, Controllers, Request
from kernbench_core.types cimport int32_t

cdef enum ControllerScheduler:  # in the order of SCHEDULERS in kernbench/config/dram_controller.py: append
    CONTROLLER_FR_FCFS_CAP
    CONTROLLER_FR_FCFS
    CONTROLLER_FCFS
    CONTROLLER_OLDEST_READY
    CONTROLLER_OLDEST_READY_HITS
    N_CONTROLLER_SCHEDULERS

cdef struct SchedulerPolicy:   # one scheduler
    # Whether a command for a burst of the served queue may be issued, apart from timing parameters. `first`: whether the burst
    # is the oldest of the queue.
    bint (*may)(Controllers* d, Channel* c, Request* q, int32_t command, bint first) noexcept nogil
    bint hits_first             # whether RD and WR come before ACT and PRE, whatever their age
    bint marks                  # whether the rule reads the marks of `mark_queue`

cdef SchedulerPolicy[<int>N_CONTROLLER_SCHEDULERS] CONTROLLER_SCHEDULERS

cdef void mark_queue(Channel* c, Request* queue, int32_t n) noexcept nogil
