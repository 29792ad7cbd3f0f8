"""Events of a requester of a scratchpad: it moves, is held, or is served (docs/model/banks_and_arbiters.md)."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, slot_t

cdef void body_over(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil
cdef void flow_over(Sim* s, slot_t requester) noexcept nogil
cdef void free_flows(Sim* s, Spm* p, int32_t dma, cycle_t now, int32_t more) noexcept nogil
cdef void hold(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil
cdef void unhold(Sim* s, Spm* p, slot_t requester, cycle_t now) noexcept nogil
cdef void press_later(Sim* s, slot_t requester) noexcept nogil
cdef void activity_phase(Sim* s, Spm* p) noexcept nogil
