"""What a TE or VE will ask for: the requests of its next body cycles, worked out many at a time."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.compute cimport Compute, ComputeJob
from kernbench_core.types cimport cycle_t, int64_t, slot_t, uint64_t

cdef enum:
    AHEAD = 64                # body cycles, at most

cdef struct Ahead:            # of one engine; no state: `want` follows from the job and the body cycle
    slot_t job                # NONE: nothing is known
    cycle_t first             # want[0] is of this body cycle of the job,
    cycle_t end               # and this one is not known any more
    uint64_t want[AHEAD + 1]  # banks; the last place is only there to be loaded from

cdef void look_ahead(Ahead* x, Compute* e, ComputeJob* jobs, Spm* p, cycle_t i) noexcept nogil

cdef inline uint64_t* ahead_of(Ahead* x, Compute* e, ComputeJob* jobs, Spm* p, cycle_t i, int64_t n) noexcept nogil:
    """The requests of `n` body cycles from `i` on, which the job has."""
    if x.job != e.job or i < x.first or i + n > x.end:
        look_ahead(x, e, jobs, p, i)
    return x.want + (i - x.first)
