"""`row_bank_column_group`: a row is used up before the next bank of its group begins."""
from kernbench_core.model.dram.devices cimport Burst, Devices
from kernbench_core.types cimport int64_t

cdef void row_bank_column_group(Devices* d, Burst* q, int64_t number) noexcept nogil
