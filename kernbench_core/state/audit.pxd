"""The relations between fields of a snapshot; the range of each field is checked before (state/fields.pyx)."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t

cdef struct Known:            # data of a TE or VE that follow from the command queue alone
    cycle_t done_at           # the cycle in which a job that streams nothing ends; else NEVER
    int64_t work              # [cycle] duration of the jobs that have ended

cdef int check_status(Sim* s) except -1
cdef int check_entries(Sim* s, int32_t* by_number) except -1
cdef int check_start(Sim* s, slot_t job) except -1
cdef int check_stall(Sim* s, slot_t job) except -1
cdef int check_dma(Sim* s, int32_t engine) except -1
cdef int check_flow(Sim* s, slot_t flow) except -1
cdef int check_request(Sim* s, slot_t flow) except -1
cdef int check_compute(Sim* s, int32_t c, Known* known) except -1
cdef int check_shares(Sim* s, slot_t* live, int32_t n) except -1
cdef bint p2_is_over(Sim* s) noexcept nogil
