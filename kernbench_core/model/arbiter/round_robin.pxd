"""`round_robin`: each bank goes round its clients, from the one behind the last that it granted."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t

cdef void round_robin(Sim* s, Spm* p, cycle_t now) noexcept nogil
