"""`fr_fcfs_cap` of docs/model/dram_rows.md, R5: bursts of an open row go first, until `batch_bursts` bursts have passed the
oldest burst of the bank."""
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.model.dram.scheduler.fr_fcfs cimport mark_up_to

cdef inline void mark_capped(Devices* d, Controller* c) noexcept nogil:
    """A burst may pass the oldest burst of its bank until `batch_bursts` bursts have done so since the row was opened."""
    mark_up_to(d, c, d.batch)
