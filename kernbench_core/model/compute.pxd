"""Tensor and vector engines: one job at a time, a service time, operand streams over its body (docs/model/compute.md)."""
from kernbench_core.model.division cimport divided
from kernbench_core.model.bank cimport Spm, bank_of, banks_from, set_banks, turned
from kernbench_core.model.bank_mask cimport set_run
from kernbench_core.types cimport NEVER, cycle_t, int16_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    MAX_REGIONS = 4
    ARRAY_PARTS = 5           # constant fields of an ArrayJob

cdef struct Region:           # an operand in the scratchpad
    nbytes_t addr             # flat scratchpad address of its first byte
    nbytes_t nbytes           # [B] size of the operand

cdef struct ComputeJob:       # constant, except for `next`
    cycle_t init              # [cycle] time before the body, without requests
    cycle_t body              # [cycle] time in which the operands stream
    cycle_t finalize          # [cycle] time after the body, without requests
    int64_t work              # MACs or ops; added to `Compute.work` when the job is complete
    int32_t entry             # position of its entry in the command queue
    int32_t engine            # index of its engine: the machine's TEs come first, then its VEs
    int16_t regions           # number of its operands
    int16_t written           # bit k is set if the job writes region k
    slot_t next               # the next job in the queue of its engine
    Region region[MAX_REGIONS]  # the operands

cdef struct ArrayJob:         # a job of an array whose jobs overlap; the fields up to `drain` are constant, in cycles of its engine
    cycle_t load              # time in which the stationary operand is loaded, if the operand port is free
    cycle_t port              # time in which the stationary operand passes the operand port
    cycle_t last              # time in which the last fold streams
    cycle_t spare             # the part of `last` in which the stream does not need the operand port
    cycle_t drain             # time at the end of the body in which the job no longer holds the array
    cycle_t left              # @past? the cycle in which the array became free of the job; NEVER: not yet
    cycle_t ends              # the cycle in which the job ends; valid after it has left the array
    cycle_t held              # @past traced runs: number of cycles in which its requests were held

cdef struct Array:            # a TE whose jobs overlap, besides its Compute
    slot_t drain_first        # the first job that has left the array and has not ended; NONE: no job drains
    slot_t drain_last         # the last job that has left the array and has not ended; valid if `draining` is above 0
    int32_t draining          # number of jobs that have left the array and have not ended
    cycle_t since             # the cycle from which the engine has always had a job; valid while it has one
    cycle_t free_from         # the cycle in which the array last became free; 0: it never did
    cycle_t last              # `ArrayJob.last` of the job that left the array in cycle `free_from`
    cycle_t spare             # `ArrayJob.spare` of the job that left the array in cycle `free_from`

cdef struct Stream:  # the progress of a region in its body: the fields up to `per_cycle` are state, the others follow from the job;
    # the fields that most body cycles read are in one line of the processor's cache
    nbytes_t at               # [B] of the region before the next line; negative if the region begins inside this line
    cycle_t next              # sparse engines: the body cycle in which the next line begins; NEVER after the last line
    int64_t line              # the next line: its bank (interleaved map), or its number (blocked)
    nbytes_t per_cycle        # [B] that a body cycle moves: ceil(nbytes / body)
    uint64_t steady  # narrow scratchpads: the lines of a cycle as banks from bank 0 on, if every cycle has the same number of lines; else 0
    cycle_t whole             # number of body cycles that move `per_cycle` bytes; the cycle after them moves the remainder
    int32_t step              # the number of lines of a cycle, modulo the number of banks
    bint write                # whether the engine writes the region
    nbytes_t nbytes           # [B] size of the region
    uint64_t inverse          # reciprocal(per_cycle), for division without a division instruction

cdef struct Compute:          # one TE or VE; the fields up to `period` are state, the others are constant
    slot_t queue_first        # the first waiting job; NONE: no job waits
    slot_t queue_last         # the last waiting job; NONE: no job waits
    int32_t queued            # number of waiting jobs
    slot_t job                # the current job; NONE: the engine is idle
    cycle_t started           # the cycle in which the current job started
    cycle_t body              # body cycles of the current job, without `outside`
    cycle_t outside           # overlapping jobs: body cycles in which the job does not hold the array (model/array.pyx); else 0
    cycle_t body_left         # @count body cycles that are not done, without those that are slept through
    cycle_t idle  # body cycles without requests before the requester's `next_at`; they are done without being simulated
    bint sparse  # whether each region begins a new line less often than every four cycles; idle cycles are then slept through
    bint dense  # whether blocks take its requests from a table (fast/request_table.pyx); `compute_seek` then moves its streams
    int32_t often             # largest number of requests for one bank in BOUNDED_CYCLES cycles
    int32_t streams           # number of operand streams of the current job; 0 if it makes no requests
    cycle_t done_at           # @next? the cycle of the job's last progress, known after its body is done; NEVER before
    int64_t jobs              # number of jobs that are complete
    int64_t work              # MACs or ops of complete jobs
    cycle_t job_cycles        # [cycle] duration of complete jobs: busy + bank_conflict
    cycle_t conflict          # @past number of cycles in which requests were denied; requests that are held now are not included
    cycle_t conflict_before   # @past traced runs: `conflict` when the current job started
    cycle_t period            # [cycle] the engine acts in multiples of this period
    Stream* stream            # its operand streams; there is room for the largest number of regions of its jobs
    bint traffic              # whether its jobs request banks (spm_traffic)
    bint overlaps             # whether it is an array whose jobs overlap
    int32_t kind              # EngineType
    int32_t id                # engine id: position among the engines of its kind

cdef void compute_enqueue(Compute* e, ComputeJob* jobs, slot_t job) noexcept nogil
cdef cycle_t compute_start(Compute* e, ComputeJob* jobs, Spm* p, cycle_t now) noexcept nogil
cdef void compute_seek(Compute* e, ComputeJob* jobs, Spm* p, cycle_t i) noexcept nogil
cdef void compute_rebuild(Compute* e, ComputeJob* jobs, Spm* p) noexcept nogil
cdef void compute_body_done(Compute* e, ComputeJob* jobs, cycle_t now) noexcept nogil
cdef void compute_complete(Compute* e, ComputeJob* jobs, cycle_t end) noexcept nogil

cdef inline void count_job(Compute* e, ComputeJob* job) noexcept nogil:
    """The job is complete: counters that change when a job ends, of every kind of engine."""
    e.jobs += 1
    e.work += job.work

cdef inline void set_parts(ArrayJob* j, const int64_t* parts) noexcept nogil:
    """Set the constant fields of a job that has not entered the array."""
    j.load = parts[0]
    j.port = parts[1]
    j.last = parts[2]
    j.spare = parts[3]
    j.drain = parts[4]
    j.left = NEVER
    j.ends = j.held = 0

cdef inline void count_waits(Compute* e, int64_t waits, cycle_t cycles) noexcept nogil:
    """Count requests that were held and are served now: their number, and the cycles in which they were denied. The model and all fast
    paths count here. A counter of waits is a field between `body_left` and `conflict`, which a block that is undone restores."""
    e.conflict += cycles

cdef inline bint writes_to(ComputeJob* j, int32_t region) noexcept nogil:
    return j.written >> region & 1

cdef inline cycle_t on_period(cycle_t now, cycle_t period) noexcept nogil:
    """The first cycle from `now` on in which an engine with this period acts."""
    return now if period == 1 else (now + period - 1) // period * period

cdef inline int64_t stream_lines(Stream* s, cycle_t i, nbytes_t line, int32_t shift) noexcept nogil:
    """The number of lines that begin in body cycle `i`; the stream moves past them."""
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
    """After a body cycle that is not the last: skip the following body cycles without requests; return their number. The last
    body cycle is never skipped."""
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
    """If one word has all banks: the banks of the lines of one region that begin in body cycle `i`."""
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
    """The lines of one region that begin in body cycle `i`; 0 if there are none. `narrow`: one word has all banks."""
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
    """The banks of this body cycle: inlined where `narrow` is a constant."""
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
    """P5: the banks of this body cycle; false if it needs none."""
    return streams_want(e, p, reads, writes, True) if p.words == 1 else streams_want(e, p, reads, writes, False)
