"""Requests of a traced scratchpad: what they ask, who is denied by whom, what they move (levels `full` and `access`)."""
from kernbench_core.bank cimport Spm
from kernbench_core.compute cimport MAX_REGIONS, Compute
from kernbench_core.events cimport FlowTrace, StreamTrace
from kernbench_core.share cimport Flow
from kernbench_core.sim cimport Sim
from kernbench_core.types cimport NEVER, cycle_t, int32_t, nbytes_t, slot_t, uint64_t

cdef void record_asking(Sim* s, Spm* p, slot_t lane, uint64_t* reads, uint64_t* writes, bint again) noexcept nogil
cdef void add_read_banks(Sim* s, Spm* p, slot_t lane, uint64_t* mask) noexcept nogil
cdef void record_served(Sim* s, Spm* p, slot_t lane, cycle_t since, cycle_t now) noexcept nogil
cdef void record_conflicts(Sim* s, Spm* p, cycle_t now) noexcept nogil

cdef inline void open_run(FlowTrace* t, Flow* f, nbytes_t left) noexcept nogil:
    """A flow asks, or may, and `left` bytes of its run are not asked for: where none is open it opens there."""
    if t.asked == NEVER:
        t.at = f.at
        t.at.run_left = left
        t.at.addr += t.at.run_seen - left
        t.at.dram += t.at.run_seen - left
        t.at.run_seen = left
        t.bank = f.bank
        t.conflict = False
    t.left = left

cdef inline void run_asked(FlowTrace* t, cycle_t now) noexcept nogil:
    if t.asked == NEVER:
        t.asked = now

cdef inline StreamTrace* streams_of(Sim* s, slot_t lane) noexcept nogil:
    return &s.stream_trace[(lane - s.n_flows) * MAX_REGIONS]

cdef inline void before_work_asks(Compute* e, StreamTrace* t) noexcept nogil:
    """A TE or VE makes a new request: called before and after, to see what its regions ask for."""
    cdef int32_t k
    for k in range(e.streams):
        if e.body_left == e.body:               # the first body cycle of the job
            t[k].asked = NEVER
            t[k].conflict = False
        t[k].first = e.stream[k].at

cdef inline void after_work_asks(Compute* e, StreamTrace* t) noexcept nogil:
    cdef int32_t k
    for k in range(e.streams):
        t[k].last = min(e.stream[k].at, e.stream[k].nbytes)
        t[k].first = max(t[k].first, 0)
