"""`shared_bw_v1`: members of a resource share it by weight."""
from kernbench_core.model.share.membership cimport Share
from kernbench_core.types cimport cycle_t

cdef void shared_bw_rates(Share* s, cycle_t now) noexcept nogil
