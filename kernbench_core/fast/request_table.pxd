"""The coming requests of a TE or VE: the requests of its next body cycles, computed many at a time."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.compute cimport Compute, ComputeJob
from kernbench_core.types cimport cycle_t, int64_t, slot_t, uint64_t

cdef enum:
    TABLE_CYCLES = 64         # limit of body cycles

cdef struct RequestTable:            # the table of one engine; not state: `want` follows from the job and the body cycle
    slot_t job                # the compute job whose requests the table has; NONE: the table is empty
    cycle_t first             # want[0] belongs to this body cycle of the job
    cycle_t end               # the first body cycle that is not in the table
    uint64_t want[TABLE_CYCLES + 1]  # banks that each body cycle requests; the last element exists only because SIMD code loads it

cdef void fill_table(RequestTable* x, Compute* e, ComputeJob* jobs, Spm* p, cycle_t i) noexcept nogil

cdef inline uint64_t* requests_from(RequestTable* x, Compute* e, ComputeJob* jobs, Spm* p, cycle_t i, int64_t n) noexcept nogil:
    """The requests of the `n` body cycles of the job from `i` on."""
    if x.job != e.job or i < x.first or i + n > x.end:
        fill_table(x, e, jobs, p, i)
    return x.want + (i - x.first)
