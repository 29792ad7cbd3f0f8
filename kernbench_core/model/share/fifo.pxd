"""`fifo_v1`: a channel serves one flow at a time, in the order of starts."""
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t

cdef void fifo_rates(Share* s, cycle_t now) noexcept nogil
