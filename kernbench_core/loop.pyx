"""The tick loop, and `Core`, its Python face.

Stepping runs the seven phases of MODEL section 1 for every cycle. Skipping does the same work in fewer turns: between two events of
control, membership and engines, a scratchpad in which nothing can be denied is advanced in closed form (scratchpad.pyx).
"""
from kernbench_core.arena cimport Arena
from kernbench_core.bank cimport Lane, Spm
from kernbench_core.compute cimport Compute, ComputeJob
from kernbench_core.control cimport Entry, control_issue
from kernbench_core.dma cimport DmaEngine, DmaJob
from kernbench_core.layout cimport lay_out
from kernbench_core.phases cimport activity_phase, complete_phase, share_phase, start_phase, submit_entry
from kernbench_core.report cimport counters_of, entries_of, engines_of, overlaps_of, waiting_of
from kernbench_core.scratchpad cimport scratchpad_cycle
from kernbench_core.share cimport Flow, Resource
from kernbench_core.sim cimport Sim, shuffle
from kernbench_core.skip cimport scratchpad_block, scratchpad_horizon, scratchpad_jump, scratchpad_uncontended
from kernbench_core.types cimport ABORTED, DEADLOCK, DONE, NONE, OVERFLOW, RUNNING, cycle_t, int32_t, int64_t, uint64_t


# Cycles for which a scratchpad runs alone: enough that its lanes stay in the nearest cache while they are walked.
cdef enum:
    BLOCK = 32


cdef bint pending(Sim* s) noexcept nogil:
    """The next cycle has work for P2, P3 or P4, or must be looked at by itself."""
    return (s.any_wanted or s.control.limited or s.n_rejoin or s.share.n_dirty or s.control.n_finished
            or s.control.in_flight == 0 or s.stops.hit)


cdef int64_t until_timer(Sim* s, cycle_t now, cycle_t limit) noexcept nogil:
    """Cycles from `now` on of which only the last may be followed by a join or end in a timed completion."""
    cdef int64_t n = limit - now
    if s.joins.n and s.joins.item[0].at - now < n:
        n = s.joins.item[0].at - now
    if s.ends.n and s.ends.item[0].at - now + 1 < n:
        n = s.ends.item[0].at - now + 1
    return n


cdef int64_t block_cycles(Sim* s, cycle_t now, cycle_t limit) noexcept nogil:
    """Cycles from `now` on in which the scratchpads do not see each other, but for the last."""
    cdef int64_t n
    cdef int32_t k
    if pending(s) or s.stops.on_conflict or s.stops.on_stall:
        return 1
    n = until_timer(s, now, limit)
    if n > BLOCK:
        n = BLOCK
    for k in range(s.n_spm):
        if n == 1:
            break
        if s.spm[k].n_order:
            n = scratchpad_block(s, k, now, n)
    return n


cdef int64_t quiet_cycles(Sim* s, cycle_t now, cycle_t limit) noexcept nogil:
    """The same, but in which nothing can be denied; 1 where something can."""
    cdef int64_t n
    cdef int32_t k
    if pending(s):
        return 1
    for k in range(s.n_spm):
        if not scratchpad_uncontended(s, k):
            return 1
    n = until_timer(s, now, limit)
    for k in range(s.n_spm):
        if n > 1 and s.spm[k].n_order:
            n = scratchpad_horizon(s, k, now, n)
    return n


cdef void run_block(Sim* s, int32_t spm, cycle_t now, int64_t cycles, bint skip) noexcept nogil:
    """P5 and P6 of one scratchpad and the activity of its DMA engines; skipping leaves out cycles in which all its lanes sleep."""
    cdef Spm* p = &s.spm[spm]
    cdef cycle_t end = now + cycles
    if p.n_order == 0:
        if p.n_watch:
            activity_phase(s, p, now)
        return
    while now < end:
        scratchpad_cycle(s, spm, now)
        if p.n_watch:
            activity_phase(s, p, now)
        now = p.soonest if skip and p.soonest > now else now + 1


cdef void jump(Sim* s, cycle_t now, int64_t cycles) noexcept nogil:
    """Many quiet cycles of all scratchpads."""
    cdef int32_t k
    for k in range(s.n_spm):
        if s.spm[k].n_watch:
            activity_phase(s, &s.spm[k], now)
        if s.spm[k].n_order:
            scratchpad_jump(s, k, now, cycles)


cdef void skip_quiet(Sim* s, cycle_t limit) noexcept nogil:
    """Go on to the next cycle in which anything acts: lanes sleep between their requests."""
    cdef cycle_t to = limit
    cdef int32_t k
    if pending(s):
        return
    for k in range(s.n_spm):
        if s.spm[k].n_watch:
            return
        if s.spm[k].n_order and s.spm[k].soonest < to:
            to = s.spm[k].soonest
            if to <= s.cycle:
                return
    if s.joins.n and s.joins.item[0].at < to:
        to = s.joins.item[0].at
    if s.ends.n and s.ends.item[0].at < to:
        to = s.ends.item[0].at
    if to > s.cycle:
        s.cycle = to


cdef bint finished(Sim* s) noexcept nogil:
    return s.control.completed + s.control.n_finished == s.control.n


cdef bint control_phase(Sim* s, cycle_t now) noexcept nogil:
    """P2; false where the run is over."""
    cdef int32_t issued = 0
    if finished(s):                            # also before cycle 0 of an empty program
        s.status = DONE
        return False
    if s.control.n_finished or s.control.limited or now == 0 or s.control.in_flight == 0:
        issued = control_issue(&s.control, now, submit_entry, s)
    if finished(s):
        s.status = DONE
        return False
    if s.control.in_flight == 0 and issued == 0:
        s.status = DEADLOCK
        return False
    return True


cdef void run_until(Sim* s, cycle_t limit, bint skip) noexcept nogil:
    """Run cycles while the run goes on, up to and without cycle `limit`."""
    cdef cycle_t now
    cdef int64_t n, denied = s.denied
    cdef cycle_t end = limit if limit < s.max_cycles else s.max_cycles
    cdef int32_t k
    while s.status == RUNNING and s.cycle < limit and not s.stops.hit:
        now = s.cycle
        if now >= s.max_cycles and not finished(s):
            s.status = ABORTED
            break
        if s.shuffle:
            shuffle(s, s.control.finished, s.control.n_finished)
        if not control_phase(s, now):
            break
        if s.any_wanted:
            start_phase(s, now)
            if s.status != RUNNING:
                break
        if s.n_rejoin or s.share.n_dirty or (s.joins.n and s.joins.item[0].at <= now):
            share_phase(s, now)
            if s.share.overflow:
                s.status = OVERFLOW
                break
        n = quiet_cycles(s, now, end) if skip else 1
        if n > 1:
            jump(s, now, n)
        else:
            n = block_cycles(s, now, end)
            for k in range(s.n_spm):
                run_block(s, k, now, n, skip)
        if s.n_pressed or s.n_done_flow or s.n_done_compute or s.ends.n:
            complete_phase(s, now + n - 1)
        s.cycle = now + n
        if s.stops.on_conflict and s.denied != denied:
            s.stops.hit = True
        if skip:
            skip_quiet(s, end)
    if s.status == RUNNING and finished(s):
        s.status = DONE


def state_layout():
    """What snapshots of two builds must have in common to be exchanged: the sizes of the tables' items."""
    return "-".join(str(n) for n in (
        sizeof(Sim), sizeof(Spm), sizeof(Lane), sizeof(Flow), sizeof(Resource), sizeof(DmaEngine), sizeof(DmaJob),
        sizeof(Compute), sizeof(ComputeJob), sizeof(Entry)))


cdef class Core:
    """One run of one program on one machine.

    `machine` and `program` are the plain tables of `kernbench.cmdq.lower`; they must be valid. Not thread-safe; the loop
    runs without the GIL, so cores in different threads run at the same time.
    """

    def __init__(self, dict machine not None, dict program not None):
        self.arena = Arena()
        lay_out(&self.sim, self.arena, machine, program)

    @property
    def cycle(self):
        """The next cycle to run: so many have run."""
        return self.sim.cycle

    @property
    def status(self):
        """A `Status`."""
        return self.sim.status

    @property
    def failed_entry(self):
        """Position of the entry whose overlap ended the run, -1 where none did."""
        return self.sim.failed_entry

    def run(self, int64_t limit, *, bint skip=True, int32_t start_of=-1, int32_t end_of=-1, bint stall=False, bint conflict=False):
        """Run up to and without cycle `limit` or the end; true where one of the conditions ended it.

        `start_of`, `end_of`: positions of entries; the run ends after the cycle in which they start, or do their last work.
        `stall`: after a cycle in which a DMA job's stall began. `conflict`: after a cycle in which a bank denied a request.
        """
        self.sim.stops.start_of = start_of
        self.sim.stops.end_of = end_of
        self.sim.stops.on_stall = stall
        self.sim.stops.on_conflict = conflict
        with nogil:
            run_until(&self.sim, limit, skip)
        hit = bool(self.sim.stops.hit)
        self.sim.stops.start_of = self.sim.stops.end_of = NONE
        self.sim.stops.on_stall = self.sim.stops.on_conflict = self.sim.stops.hit = False
        return hit

    def step(self, int64_t n=1, *, bint skip=False):
        """Run `n` cycles, fewer where the run ends; return how many."""
        cdef int64_t before = self.sim.cycle
        self.run(before + n, skip=skip)
        return self.sim.cycle - before

    def entries(self):
        """`(issue, start, end)`: int64 arrays over the entries, -1 where that has not come."""
        return entries_of(&self.sim)

    def counters(self):
        """Every counter of MODEL section 10 after the cycles that have run, as a dict of lists (`report.pyx`)."""
        return counters_of(&self.sim)

    def engines(self):
        """What every engine does now, as a dict of lists of dicts (`report.pyx`)."""
        return engines_of(&self.sim)

    def waiting(self):
        """`(waits, gate)`: how many things each entry still waits for, and the position of the barrier that holds the rest."""
        return waiting_of(&self.sim)

    def overlaps(self):
        """Pairs (entry, running entry) of positions for each start that `check_overlap` found fault with."""
        return overlaps_of(&self.sim)

    def shuffle_lists(self, uint64_t seed):
        """For tests: handle equal events of a cycle in a random order; it must change nothing. 0 ends it."""
        self.sim.shuffle = seed

    def snapshot(self):
        """All state as bytes; equal states give equal bytes on one build."""
        return self.arena.dump()

    def restore(self, bytes image not None):
        """Put a snapshot of the same machine and program back; ValueError where it is of another shape."""
        self.arena.load(image)
