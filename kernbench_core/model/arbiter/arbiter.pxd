"""The arbiters of scratchpads, by number, and what they grant with."""
from kernbench_core.model.bank cimport Spm, grant
from kernbench_core.model.sim cimport Sim, reads_of, writes_of
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.trace.record_requests cimport record_asking
from kernbench_core.types cimport cycle_t, slot_t

ctypedef void (*arbitrate_fn)(Sim* s, Spm* p, cycle_t now) noexcept nogil  # P5: grants the requests of `Spm.asking`

cdef arbitrate_fn[1] ARBITERS  # by `ArbiterRule`

cdef inline bint traces_requests(Sim* s) noexcept nogil:
    """The run writes down every request."""
    return s.trace != NULL and s.trace.level >= TRACE_FULL

cdef inline void grant_request(Sim* s, Spm* p, slot_t lane, cycle_t now) noexcept nogil:
    """Grant a request the ports that are left; its masks keep the banks that it lacks."""
    if traces_requests(s):
        record_asking(s, p, lane, reads_of(s, lane), writes_of(s, lane), now)
    grant(p, reads_of(s, lane), writes_of(s, lane))
