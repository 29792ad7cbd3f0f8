"""The requests of a dense TE or VE in its next body cycles.

The request of a body cycle depends only on the job and the number of the body cycle, not on the time. The requests of many body cycles are
therefore computed together, stream by stream, and the walk over a block of cycles reads them from a table. The table is not part of a
snapshot.
"""
from libc.string cimport memset

from kernbench_core.model.bank cimport turned
from kernbench_core.model.compute cimport Stream, compute_seek
from kernbench_core.fast.simd cimport vectors
from kernbench_core.types cimport int32_t


cdef void add_steady(uint64_t* want, int64_t n, uint64_t mask, int64_t step, Spm* p) noexcept nogil:
    """Add banks that advance by `step` from one body cycle to the next. They repeat after a few cycles: one recurrence period is computed,
    each mask from the one before, and then added to all."""
    cdef uint64_t[TABLE_CYCLES] turn
    cdef int64_t k, at = 0, period = 0, banks = p.banks
    cdef uint64_t full = p.full, first = mask
    while period < n:
        turn[period] = mask
        period += 1
        mask = (mask << step | (mask >> 1) >> (banks - 1 - step)) & full
        if mask == first:
            break
    while at + period <= n:
        for k in range(period):
            want[at + k] |= turn[k]
        at += period
    for k in range(n - at):
        want[at + k] |= turn[k]


cdef void add_stream(uint64_t* want, int64_t n, Stream* t, Spm* p, cycle_t i) noexcept nogil:
    """Add the lines of a stream that may begin different numbers of lines in different body cycles. The stream is at `i`, and stays
    there."""
    cdef int64_t k, lines, bank = t.line, at = t.at, end = i * t.per_cycle, q = t.per_cycle, nbytes = t.nbytes
    cdef int64_t banks = p.banks, line = p.line, shift = p.line_shift
    cdef uint64_t full = p.full, mask
    for k in range(n):
        end = end + q if end + q < nbytes else nbytes
        lines = (end - at + line - 1) >> shift
        mask = (<uint64_t>1 << lines) - 1 if lines < banks else full
        want[k] |= (mask << bank | (mask >> 1) >> (banks - 1 - bank)) & full
        at += lines << shift
        bank += lines
        if bank >= banks:
            bank = bank - banks if lines <= banks else bank % banks


cdef void fill_table(RequestTable* x, Compute* e, ComputeJob* jobs, Spm* p, cycle_t i) noexcept nogil:
    """Compute the requests of the body cycles from `i` on, as many as there is room for."""
    cdef int64_t n = min(TABLE_CYCLES, e.body - i), step = e.stream[0].step
    cdef uint64_t mask, alike = 0           # streams that advance like the first, as all streams of a GEMM usually do
    cdef Stream* t
    cdef int32_t k
    x.job = e.job
    x.first = i
    x.end = i + n
    memset(x.want, 0, sizeof(x.want))
    compute_seek(e, jobs, p, i)
    for k in range(e.streams):
        t = &e.stream[k]
        if t.steady and i + n <= t.whole:
            mask = turned(p, t.steady, t.line)
            if t.step == step:
                alike |= mask
            else:
                add_steady(x.want, n, mask, t.step, p)
        elif vectors.add_lines != NULL and (p.banks & (p.banks - 1)) == 0 and t.at >= i * t.per_cycle:
            vectors.add_lines(x.want, n, t.line, t.at, i * t.per_cycle, t.per_cycle, t.nbytes, p.line_shift, p.banks, p.full)
        else:
            add_stream(x.want, n, t, p, i)
    if alike:
        add_steady(x.want, n, alike, step, p)
