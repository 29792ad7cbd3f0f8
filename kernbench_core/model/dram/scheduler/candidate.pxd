"""Functions of the schedulers: the burst that leads a bank, and the cycle from which a column command may be issued."""
from kernbench_core.model.dram.device cimport RD, WR, Bank, device_ready
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef inline void mark_burst(Burst* q, Bank* b, int64_t scan) noexcept nogil:
    """Mark the next burst of a scan: the first burst of a bank leads the bank, and the bank has no candidate so far."""
    q.leads = b.marked != scan
    if q.leads:
        b.marked = scan
        b.oldest_row = q.row
        b.candidates = 0

cdef inline cycle_t column_ready(Devices* d, Controller* c, int32_t bank, bint write) noexcept nogil:
    """The cycle from which no timing rule forbids a column command to the bank."""
    return device_ready(&c.device, &d.timing, bank, WR if write else RD)
