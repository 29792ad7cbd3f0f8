"""`row_column_bank_group`: all banks are used before any row's second burst is."""
from kernbench_core.model.dram.devices cimport Burst, Devices
from kernbench_core.types cimport int64_t

cdef void row_column_bank_group(Devices* d, Burst* q, int64_t number) noexcept nogil
