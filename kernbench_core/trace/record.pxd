"""Functions that record the events of jobs, transfers and flows. They are called only if the run is traced."""
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.model.cache cimport Cache
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t, uint64_t

cdef void record_issue(Sim* s, int32_t entry) noexcept nogil
cdef void record_arrival(Sim* s, int32_t entry) noexcept nogil
cdef void record_submit(Sim* s, int32_t entry) noexcept nogil
cdef void record_start(Sim* s, int32_t entry, cycle_t now) noexcept nogil
cdef void record_end(Sim* s, int32_t entry, cycle_t end) noexcept nogil
cdef void record_queue_stall(Sim* s, slot_t job, cycle_t now) noexcept nogil
cdef void record_queue_resume(Sim* s, slot_t job, cycle_t now) noexcept nogil
cdef void record_lookup(Sim* s, slot_t job, Cache* before, cycle_t now) noexcept nogil
cdef void record_open(Sim* s, slot_t flow) noexcept nogil
cdef void record_enter(Sim* s, slot_t flow, cycle_t now) noexcept nogil
cdef void record_members(Sim* s, cycle_t now) noexcept nogil
cdef void record_leave(Sim* s, slot_t flow, cycle_t end) noexcept nogil
cdef void record_press(Sim* s, slot_t job, int32_t channel, cycle_t now) noexcept nogil
cdef void record_unpress(Sim* s, slot_t job, cycle_t now) noexcept nogil
cdef void record_emit(Sim* s, int32_t entry, cycle_t now, int32_t name, int64_t value) noexcept nogil
