"""A block of cycles of a traced run."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int32_t, slot_t
from kernbench_core.fast.walk cimport Walk

cdef void walk_one(Sim* s, Spm* p, Walk* w, slot_t lane) noexcept nogil
cdef void walk_traced(Sim* s, Spm* p, Walk* w, int32_t n_due) noexcept nogil
