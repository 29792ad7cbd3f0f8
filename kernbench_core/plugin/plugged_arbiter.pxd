"""A user-defined arbiter: code outside of the package that decides which request is granted which bank (abi.h, `kb_arbiter_ops`)."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.arena cimport Arena
from kernbench_core.types cimport cycle_t

cdef int lay_out_arbiter(Sim* s, Arena a, object address) except -1
cdef void plugged_in(Sim* s, Spm* p, cycle_t now) noexcept nogil
cdef object arbiter_failure(Sim* s)
cdef bytes arbiter_snapshot(Sim* s)
cdef size_t arbiter_restore(Sim* s, bytes image, size_t at) except? 0
