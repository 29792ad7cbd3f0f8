"""`row_bank_column_group` of docs/model/dram_rows.md, R1: all bursts of a row come before the next bank of its group."""
from kernbench_core.model.dram.devices cimport Burst, Devices
from kernbench_core.types cimport int32_t, int64_t

cdef inline void row_bank_column_group(Devices* d, Burst* q, int64_t number) noexcept nogil:
    """Consecutive bursts are in different groups; the bursts of one row in each group come next to each other, and the next
    banks follow."""
    cdef int32_t groups = d.timing.groups, each = d.timing.banks // d.timing.groups
    cdef int64_t bank = number // groups // d.columns
    q.bank = <int32_t>(number % groups * each + bank % each)
    q.row = bank // each
