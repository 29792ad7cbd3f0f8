"""Tensor and vector engines: one job at a time, a service time, operand streams over its body (docs/model/compute.md)."""
from kernbench_core.model.division cimport divided
from kernbench_core.model.bank cimport Spm, bank_of, banks_from, set_banks, turned
from kernbench_core.model.bank_mask cimport set_run
from kernbench_core.types cimport NEVER, cycle_t, int16_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    MAX_REGIONS = 4

cdef struct Region:           # an operand in the scratchpad
    nbytes_t addr             # flat address
    nbytes_t nbytes           # [B] its size

cdef struct ComputeJob:       # constant but for `next`
    cycle_t init              # cycles that touch nothing, first
    cycle_t body              # cycles over which the operands stream
    cycle_t finalize          # cycles that touch nothing, last
    int64_t work              # MACs or ops, counted when it is complete
    int32_t entry             # of the command queue
    int32_t engine            # of the machine's TEs, then VEs
    int16_t regions           # how many operands it has
    int16_t written           # bit k: region k is
    slot_t next               # in its engine's queue
    Region region[MAX_REGIONS]  # the operands

cdef struct Stream:           # where a region stands in its body: up to `per_cycle` it is state, the rest follows from the job; what
    # most body cycles read is in one line of the processor's cache
    nbytes_t at               # [B] of the region before the next line; negative where it begins inside that
    cycle_t next              # sparse engines: the body cycle in which the next line begins; NEVER past the end
    int64_t line              # the next line: its bank (interleaved map), or its number (blocked)
    nbytes_t per_cycle        # q = ceil(nbytes / body)
    uint64_t steady           # narrow scratchpads: the lines of a cycle as banks from bank 0 on, where they are equally many; else 0
    cycle_t whole             # body cycles that cover all of `per_cycle`
    int32_t step              # the number of those lines, modulo the banks
    bint write                # the engine writes the region
    nbytes_t nbytes           # [B] of the region
    uint64_t inverse          # reciprocal(per_cycle)

cdef struct Compute:          # one TE or VE; up to `period` it is state, the rest is constant
    slot_t queue_first        # jobs that wait, in order
    slot_t queue_last         # the last job that waits, or NONE
    int32_t queued            # jobs that wait
    slot_t job                # NONE: idle
    cycle_t started           # of the job
    cycle_t body              # body cycles of the job
    cycle_t body_left         # @count not done of them, without those that are slept through
    cycle_t idle              # body cycles before the requester's `next_at` that touch nothing: done without being looked at
    bint sparse               # no region begins a line in every fourth cycle or more often: idle ones are slept through
    bint dense                # blocks take its requests from a table (fast/request_table.pyx); `compute_seek` then moves its streams
    int32_t often             # asks for one bank in CALM cycles, at most
    int32_t streams           # regions of the job, where it makes requests; else 0
    cycle_t done_at           # @next? the cycle of its last progress, once the body is done; else NEVER
    int64_t jobs              # counters
    int64_t work              # MACs or ops of finished jobs
    cycle_t job_cycles        # cycles with a job, finished ones only: busy + bank_conflict
    cycle_t conflict          # @past
    cycle_t conflict_before   # @past where it stood at the start of the job, in a traced run
    cycle_t period            # [cycle] it acts in multiples of this
    Stream* stream            # as many as the most regions of its jobs
    bint traffic              # spm_traffic
    int32_t kind              # EngineType
    int32_t id                # engine id among its kind

cdef void compute_enqueue(Compute* e, ComputeJob* jobs, slot_t job) noexcept nogil
cdef cycle_t compute_start(Compute* e, ComputeJob* jobs, Spm* p, cycle_t now) noexcept nogil
cdef void compute_seek(Compute* e, ComputeJob* jobs, Spm* p, cycle_t i) noexcept nogil
cdef void compute_rebuild(Compute* e, ComputeJob* jobs, Spm* p) noexcept nogil
cdef void compute_body_done(Compute* e, ComputeJob* jobs, cycle_t now) noexcept nogil
cdef void compute_complete(Compute* e, ComputeJob* jobs, cycle_t end) noexcept nogil

cdef inline bint writes_to(ComputeJob* j, int32_t region) noexcept nogil:
    return j.written >> region & 1

cdef inline cycle_t on_period(cycle_t now, cycle_t period) noexcept nogil:
    """The first cycle from `now` on in which an engine of this period acts."""
    return now if period == 1 else (now + period - 1) // period * period

cdef inline int64_t stream_lines(Stream* s, cycle_t i, nbytes_t line, int32_t shift) noexcept nogil:
    """How many lines begin in body cycle `i`; they are gone over."""
    cdef nbytes_t end = (i + 1) * s.per_cycle
    cdef int64_t n
    if end > s.nbytes:
        end = s.nbytes
    if end <= s.at:
        return 0
    n = (end - s.at + line - 1) >> shift if shift >= 0 else (end - s.at + line - 1) // line
    s.at += n * line
    return n

cdef inline void stream_next(Stream* s) noexcept nogil:
    s.next = divided(s.at, s.per_cycle, s.inverse) if s.at < s.nbytes else NEVER

cdef inline cycle_t sleep_idle(Compute* e) noexcept nogil:
    """After a body cycle, which is not the last: go over those that touch nothing; how many they are. The last is always looked at."""
    cdef cycle_t i = e.body - e.body_left, last = e.body - 1
    cdef int32_t k
    if not e.sparse:
        return 0
    for k in range(e.streams):
        if e.stream[k].next < last:
            last = e.stream[k].next
    e.idle = last - i
    e.body_left -= e.idle
    return e.idle

cdef inline uint64_t stream_banks(Stream* s, Spm* p, cycle_t i) noexcept nogil:
    """One word holds all banks: those of the lines of one region that begin in body cycle `i`."""
    cdef int64_t line = s.line, n
    if s.steady and i < s.whole:
        s.at += s.per_cycle
        n = line + s.step
        s.line = n - p.banks if n >= p.banks else n
        return turned(p, s.steady, line)
    n = stream_lines(s, i, p.line, p.line_shift)
    if n == 0:
        return 0
    s.line = line + n
    if p.blocked:
        return banks_from(p, bank_of(p, line), bank_of(p, line + n - 1) - bank_of(p, line) + 1)
    if s.line >= p.banks:
        s.line = s.line - p.banks if n < p.banks else s.line % p.banks
    return banks_from(p, line, n)

cdef inline uint64_t stream_want(Stream* s, Spm* p, cycle_t i, uint64_t* mask, bint narrow) noexcept nogil:
    """The lines of one region that begin in body cycle `i`; 0 where there are none. `narrow`: one word holds all banks."""
    cdef uint64_t banks
    cdef int64_t n
    if narrow:
        banks = stream_banks(s, p, i)
        mask[0] |= banks
        return banks
    n = stream_lines(s, i, p.line, p.line_shift)
    if n == 0:
        return 0
    if p.blocked:
        set_run(mask, bank_of(p, s.line), bank_of(p, s.line + n - 1) - bank_of(p, s.line) + 1)
        s.line += n
    else:
        set_banks(p, mask, <int32_t>s.line, n)
        s.line += n
        if s.line >= p.banks:
            s.line = s.line - p.banks if n < p.banks else s.line % p.banks
    return 1

cdef inline bint streams_want(Compute* e, Spm* p, uint64_t* reads, uint64_t* writes, bint narrow) noexcept nogil:
    """The banks of this body cycle: inlined, where `narrow` is a constant."""
    cdef cycle_t i = e.body - e.body_left
    cdef uint64_t* written = writes if p.split else reads
    cdef uint64_t any = 0
    cdef bint sparse = e.sparse
    cdef Stream* s = e.stream
    cdef Stream* end = e.stream + e.streams
    while s < end:
        if not sparse or s.next <= i:
            any |= stream_want(s, p, i, written if s.write else reads, narrow)
            if sparse:
                stream_next(s)
        s += 1
    return any != 0

cdef inline bint compute_want(Compute* e, Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """P5: the banks of this body cycle; false where it touches none."""
    return streams_want(e, p, reads, writes, True) if p.words == 1 else streams_want(e, p, reads, writes, False)
