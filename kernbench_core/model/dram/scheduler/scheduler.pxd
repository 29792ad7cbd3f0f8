"""The schedulers of DRAM controllers, by number, and what they choose with."""
from kernbench_core.model.dram.controller cimport Burst, Controller, Devices
from kernbench_core.model.dram.device cimport RD, WR, Bank, device_ready
from kernbench_core.types cimport N_SCHEDULERS, cycle_t, int32_t, int64_t

cdef struct Scheduler:        # a rule
    # In a new look: which queued bursts are candidates, times apart, and which lead their banks.
    void (*mark)(Devices* d, Controller* c) noexcept nogil
    # The place in the queue of the candidate that is given now; or NONE, and in `soonest` the cycle from which one may be.
    int32_t (*choose)(Devices* d, Controller* c, cycle_t now, cycle_t* soonest) noexcept nogil

cdef Scheduler[N_SCHEDULERS] SCHEDULERS  # by `SchedulerRule`

cdef inline void mark_burst(Burst* q, Bank* b, int64_t look) noexcept nogil:
    """The next burst of a look: the first of a bank leads it, and nobody is a candidate there yet."""
    q.leads = b.marked != look
    if q.leads:
        b.marked = look
        b.wanted = q.row
        b.candidates = 0

cdef inline cycle_t column_ready(Devices* d, Controller* c, int32_t bank, bint write) noexcept nogil:
    """The cycle from which no timing rule forbids a column command to the bank."""
    return device_ready(&c.device, &d.timing, bank, WR if write else RD)
