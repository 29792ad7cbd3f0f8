"""The schedulers of DRAM controllers, by number."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport cycle_t, int32_t

cdef enum SchedulerRule:      # in the order of SCHEDULERS in kernbench/config/dram_device.py: append
    FR_FCFS_CAP
    FR_FCFS
    FCFS
    N_SCHEDULERS

cdef struct Scheduler:        # one scheduler
    # At a new scan: mark the queued bursts that are candidates, apart from timing parameters, and the bursts that lead their
    # banks.
    void (*mark)(Devices* d, Controller* c) noexcept nogil
    # The position in the queue of the candidate whose command is issued now; or NONE, with the cycle from which one may be
    # issued in `soonest`.
    int32_t (*choose)(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil

cdef Scheduler[<int>N_SCHEDULERS] SCHEDULERS  # indexed by `SchedulerRule`
