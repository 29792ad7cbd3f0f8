"""The schedulers of DRAM controllers, by number."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.types cimport N_SCHEDULERS, cycle_t, int32_t

cdef struct Scheduler:        # a rule
    # In a new look: which queued bursts are candidates, times apart, and which lead their banks.
    void (*mark)(Devices* d, Controller* c) noexcept nogil
    # The place in the queue of the candidate that is given now; or NONE, and in `soonest` the cycle from which one may be.
    int32_t (*choose)(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil

cdef Scheduler[N_SCHEDULERS] SCHEDULERS  # by `SchedulerRule`
