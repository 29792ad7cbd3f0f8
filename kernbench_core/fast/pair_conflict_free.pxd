"""The cycle before which a scratchpad with flows to or from other scratchpads denies no request."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.fast.future_requests cimport Course
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, slot_t

cdef bint open_pair(Sim* s, Spm* p, Course* x) noexcept nogil
cdef bint pair_may_look_ahead(Spm* p) noexcept nogil
cdef bint set_pair_horizon(Spm* p, cycle_t clear) noexcept nogil
cdef void invalidate_pair_horizon(Spm* p, cycle_t now) noexcept nogil
cdef void pair_jump(Sim* s, slot_t flow, cycle_t to) noexcept nogil
