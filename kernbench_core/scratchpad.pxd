"""One scratchpad's cycle: who asks, who is granted, what moves (P5 and P6)."""
from kernbench_core.bank cimport Spm
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t

cdef void open_ports(Spm* p) noexcept nogil
cdef void scratchpad_cycle(Sim* s, int32_t spm, cycle_t now) noexcept nogil
