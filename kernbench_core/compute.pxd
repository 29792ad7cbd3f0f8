"""Tensor and vector engines: one job at a time, a service time, operand streams over its body (MODEL sections 5 to 7)."""
from kernbench_core.bank cimport Spm, bank_of, set_banks, set_run
from kernbench_core.share cimport divided
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef enum:
    MAX_REGIONS = 4

cdef struct Region:           # an operand in the scratchpad
    nbytes_t addr             # flat address
    nbytes_t nbytes
    int64_t write

cdef struct ComputeJob:       # constant but for `next`
    cycle_t init              # cycles that touch nothing, first
    cycle_t body              # cycles over which the operands stream
    cycle_t finalize          # cycles that touch nothing, last
    int64_t work              # MACs or ops, counted when it is complete
    int32_t entry             # of the command queue
    int32_t engine
    int32_t regions
    slot_t next               # in its engine's queue
    Region region[MAX_REGIONS]

cdef struct Stream:           # where a region stands in its body
    nbytes_t left             # [B] not yet covered
    nbytes_t per_cycle        # q = ceil(nbytes / body)
    uint64_t inverse          # reciprocal(per_cycle)
    nbytes_t past             # [B] from the begin of the next line to the end of what is covered; at most 0
    int64_t line              # the next line: its bank (interleaved map), or its number (blocked)
    uint64_t steady           # narrow scratchpads: the lines of a cycle as banks from bank 0 on, where they are equally many; else 0
    int64_t step              # their number, modulo the banks
    bint write

cdef struct Compute:          # one TE or VE
    cycle_t period
    bint traffic              # spm_traffic
    int32_t kind              # EngineType
    int32_t id
    slot_t queue_first        # jobs that wait, in order
    slot_t queue_last
    int32_t queued
    slot_t job                # NONE: idle
    cycle_t started           # of the job
    cycle_t body_left         # body cycles not done, without those that are slept through
    cycle_t idle              # body cycles before the lane's `next_at` that touch nothing: done without being looked at
    bint sparse               # no region begins a line every cycle
    cycle_t done_at           # the cycle of its last progress, once the body is done; else NEVER
    cycle_t held_since        # NEVER: not held
    int64_t streams
    int64_t jobs              # counters
    int64_t work
    cycle_t job_cycles        # cycles with a job, finished ones only: busy + bank_conflict
    cycle_t conflict
    Stream stream[MAX_REGIONS]

cdef void compute_enqueue(Compute* e, ComputeJob* jobs, slot_t job) noexcept nogil
cdef cycle_t compute_start(Compute* e, ComputeJob* jobs, Spm* p, cycle_t now) noexcept nogil
cdef void compute_body_done(Compute* e, ComputeJob* jobs, cycle_t now) noexcept nogil
cdef void compute_complete(Compute* e, ComputeJob* jobs, cycle_t end) noexcept nogil
cdef cycle_t compute_jump(Compute* e, Spm* p, uint64_t* reads, uint64_t* writes, cycle_t at, cycle_t end) noexcept nogil

cdef inline cycle_t on_period(cycle_t now, cycle_t period) noexcept nogil:
    """The first cycle from `now` on in which an engine of this period acts."""
    return now if period == 1 else (now + period - 1) // period * period

cdef inline int64_t stream_lines(Stream* s, nbytes_t line, int32_t shift) noexcept nogil:
    """Cover the part of one body cycle; how many lines begin in it."""
    cdef int64_t n, part = s.per_cycle if s.per_cycle < s.left else s.left
    s.left -= part
    part += s.past
    n = (part + line - 1) >> shift if shift >= 0 else (part + line - 1) // line
    s.past = part - n * line
    return n

cdef inline cycle_t idle_cycles(Compute* e) noexcept nogil:
    """After a body cycle: how many come before the next that begins a line; the last one is always looked at."""
    cdef cycle_t idle = e.body_left - 1, n
    cdef Stream* s
    cdef int32_t k
    for k in range(e.streams):
        s = &e.stream[k]
        if s.left + s.past > 0:
            n = divided(-s.past, s.per_cycle, s.inverse)
            if n < idle:
                idle = n
    return idle

cdef inline cycle_t sleep_idle(Compute* e) noexcept nogil:
    """Go over the idle cycles that follow; how many they are."""
    cdef nbytes_t part
    cdef Stream* s
    cdef int32_t k
    e.idle = idle_cycles(e) if e.sparse else 0
    if e.idle:
        e.body_left -= e.idle
        for k in range(e.streams):
            s = &e.stream[k]
            part = e.idle * s.per_cycle
            if part > s.left:
                part = s.left
            s.left -= part
            s.past += part
    return e.idle

cdef inline bint stream_want(Stream* s, Spm* p, uint64_t* mask) noexcept nogil:
    """The lines of one region that begin in this body cycle; false where there are none."""
    cdef int64_t n = stream_lines(s, p.line, p.line_shift)
    if n == 0:
        return False
    if p.blocked:
        set_run(mask, bank_of(p, s.line), bank_of(p, s.line + n - 1) - bank_of(p, s.line) + 1)
        s.line += n
    else:
        set_banks(p, mask, <int32_t>s.line, n)
        s.line += n
        if s.line >= p.banks:
            s.line = s.line - p.banks if n < p.banks else s.line % p.banks
    return True

cdef inline bint compute_want(Compute* e, Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """P5: the banks of this body cycle; false where it touches none."""
    cdef bint any = False
    cdef int32_t k
    for k in range(e.streams):
        any |= stream_want(&e.stream[k], p, writes if e.stream[k].write and p.split else reads)
    return any
