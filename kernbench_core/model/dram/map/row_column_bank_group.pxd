"""`row_column_bank_group` of docs/model/dram_rows.md, R1: all banks are used before the second burst of any row."""
from kernbench_core.model.dram.devices cimport Burst, Devices
from kernbench_core.types cimport int32_t, int64_t

cdef inline void row_column_bank_group(Devices* d, Burst* q, int64_t number) noexcept nogil:
    """Consecutive bursts are first in different groups, then in different banks of a group, and then next to each other in a
    row."""
    cdef int32_t groups = d.timing.groups, each = d.timing.banks // d.timing.groups
    cdef int64_t bank = number // groups
    q.bank = <int32_t>(number % groups * each + bank % each)
    q.row = bank // each // d.columns
