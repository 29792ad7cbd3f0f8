"""The phases around the scratchpads: start (P3), share (P4), complete (P7)."""
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t

cdef void submit_entry(void* sim, int32_t entry, int64_t seq) noexcept nogil
cdef void describe_flow(Sim* s, Flow* f) noexcept nogil
cdef void open_requester(
    Sim* s, slot_t requester, int32_t spm, int64_t key_engine, int64_t key_seq, bint writes, cycle_t next_at) noexcept nogil
cdef void list_requester(Sim* s, slot_t requester) noexcept nogil
cdef void flow_bytes(Sim* s, slot_t job) noexcept nogil
cdef cycle_t open_flows(Sim* s, slot_t job) noexcept nogil
cdef void start_transfer(Sim* s, slot_t job, cycle_t now) noexcept nogil
cdef void start_phase(Sim* s, cycle_t now) noexcept nogil
cdef void share_phase(Sim* s, cycle_t now) noexcept nogil
cdef void complete_phase(Sim* s, cycle_t now) noexcept nogil

cdef inline bint share_due(Sim* s, cycle_t now) noexcept nogil:
    """Whether P4 has work in this cycle."""
    return (s.n_rejoin or s.share.n_dirty or (s.joins.n and s.joins.item[0].at <= now)
            or (s.share.devices != NULL and s.share.devices_next <= now))

cdef inline cycle_t share_next(Sim* s, cycle_t limit) noexcept nogil:
    """No flow joins, and no DRAM channel has work, in an earlier cycle; at most `limit`."""
    if s.joins.n:
        limit = min(limit, s.joins.item[0].at)
    if s.share.devices != NULL:
        limit = min(limit, s.share.devices_next)
    return limit
