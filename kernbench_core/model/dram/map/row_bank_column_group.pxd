"""`row_bank_column_group` of docs/model/dram_rows.md, R1: a row is used up before the next bank of its group begins."""
from kernbench_core.model.dram.devices cimport Burst, Devices
from kernbench_core.types cimport int32_t, int64_t

cdef inline void row_bank_column_group(Devices* d, Burst* q, int64_t number) noexcept nogil:
    """Neighbours lie in different groups, a row of each side by side, and behind them the next banks."""
    cdef int32_t groups = d.timing.groups, each = d.timing.banks // d.timing.groups
    cdef int64_t bank = number // groups // d.columns
    q.bank = <int32_t>(number % groups * each + bank % each)
    q.row = bank // each
