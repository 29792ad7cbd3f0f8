"""`Core`: one run of one program on one machine, as Python sees it."""
import hashlib
import hmac
import os

from kernbench_core.fast.loop cimport begin_fast, catch_up, run_fast
from kernbench_core.fast.threads cimport lay_out_threads, threads_of
from kernbench_core.model.loop cimport finished, run_plain
from kernbench_core.model.routes cimport route_add, route_refuse_snapshot
from kernbench_core.plugin.component cimport component_flow_changed
from kernbench_core.plugin.traced_commands cimport describe_job, open_jobs, submitted_work
from kernbench_core.plugin.peers cimport peers_open, peers_wake
from kernbench_core.plugin.component_tables cimport NAME_ROOM
from kernbench_core.plugin.plug_layout cimport (
    lay_out_plugs, plug_check_snapshot, plug_counters, plug_failure, plug_restore, plug_sizes, plug_snapshot)
from kernbench_core.plugin.plugged_arbiter cimport arbiter_failure, arbiter_restore, arbiter_snapshot, lay_out_arbiter
from kernbench_core.plugin.pyarbiter import arbiter_exception, arbiter_operations
from kernbench_core.plugin.pycomponent import exception_of, operations_of, refuse_snapshot, reraise
from kernbench_core.state.fields import state_fields
from kernbench_core.state.layout cimport lay_out, lay_out_traces
from kernbench_core.state.rebuild cimport fold, rebuild
from kernbench_core.state.report cimport arrivals_of, counters_of, engines_of, entries_of, outputs_of, overlaps_of, totals_of, waiting_of
from kernbench_core.state.resume cimport resume
from kernbench_core.state.snapshot cimport most_bytes, show_snapshot, take_snapshot
from kernbench_core.trace.events cimport Trace, Tracer
from kernbench_core.types cimport CHANNELS, DONE, NONE, RUNNING, cycle_t, int32_t, int64_t, slot_t, uint64_t


cdef enum:
    BATCH = 1 << 15           # records of a trace


cdef void component_touched(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """`Share.touch` of the plain model: only flows of components want to know that their rate changes."""
    cdef Sim* s = <Sim*>sim
    if s.plugs != NULL and flow >= s.plugs.first_flow:
        component_flow_changed(s, flow)


cdef void run_until(Sim* s, cycle_t limit, bint skip, Tracer* trace) noexcept nogil:
    """Run cycles while the run goes on, up to and without cycle `limit`, or until a trace has a batch of records."""
    if trace != NULL:
        trace.full = trace.n + BATCH            # records of the cycle to come may be there already
        trace.rolls = skip
    s.trace = trace
    if s.share.plain:
        s.share.touch = component_touched
        s.share.sim = s
        run_plain(s, limit)
    else:
        begin_fast(s, skip)
        run_fast(s, limit, skip)
    catch_up(s)
    s.share.touch = NULL
    s.share.sim = NULL
    s.trace = NULL
    if s.status == RUNNING and finished(s):
        s.status = DONE


def state_layout():
    """What snapshots of two builds must have in common to be exchanged: the fields, their widths and ranges."""
    return hashlib.sha256(repr(state_fields()).encode()).hexdigest()[:16]


SEAL = os.urandom(32)         # of this process
TAG = 32                      # [B]


def sealed(bytes image):
    """A snapshot that only this process can have made."""
    return hashlib.blake2b(image, digest_size=TAG, key=SEAL).digest() + image


def unsealed(bytes image):
    """What was sealed; ValueError where this process did not make it."""
    if not hmac.compare_digest(sealed(image[TAG:])[:TAG], image[:TAG]):
        raise ValueError("a snapshot of a run with components is taken back by the process that made it, as it was made")
    return image[TAG:]


cdef class Core:
    """One run of one program on one machine.

    `machine` and `program` are the plain tables of `kernbench.cmdq.lower`; they must be valid. Not thread-safe; the loop
    runs without the GIL, so cores in different threads run at the same time.
    """

    def __init__(self, dict machine not None, dict program not None, components=(), *, arbiter=None, bint plain=False, int threads=1):
        """`components`: capsules or `Component` objects; `machine["replaced"]` says in the place of which engines they stand.

        `arbiter`: a capsule or an `Arbiter` object, of the scratchpads whose `arbiter` is -1; such a run is plain.
        `plain`: every cycle is run by the model alone, without fast paths. It is slower, and the result is the same.
        `threads`: so many threads run groups of scratchpads that share nothing (fast/threads.pyx); the result is the same.
        """
        if self.arena is not None:
            raise RuntimeError("a Core is made once")
        self.arena = Arena()
        self.components = list(components)
        operations = [operations_of(component) for component in self.components]
        self.arbiter = arbiter
        if arbiter is None and NONE in [table.get("arbiter") for table in machine["spm"]]:
            raise ValueError("a scratchpad's arbiter is -1, and no arbiter is given")
        rule = None if arbiter is None else arbiter_operations(arbiter)
        self.sim.share.plain = plain or arbiter is not None or machine.get("network") is not None
        plug_sizes(&self.sim, operations)
        lay_out(&self.sim, self.arena, machine, program)
        lay_out_plugs(&self.sim, self.arena, operations, machine, program)
        if rule is not None:
            lay_out_arbiter(&self.sim, self.arena, rule)
        lay_out_threads(&self.sim, self.arena, threads)

    @property
    def cycle(self):
        """The next cycle to run: so many have run."""
        return self.sim.cycle

    @property
    def threads(self):
        """How many threads groups of scratchpads can run in; 1 where there is one group."""
        return threads_of(&self.sim)

    @property
    def status(self):
        """A `Status`."""
        return self.sim.status

    @property
    def failed_entry(self):
        """Position of the entry whose overlap ended the run, -1 where none did."""
        return self.sim.failed_entry

    def run(self, int64_t limit, *, bint skip=True, int32_t start_of=-1, int32_t end_of=-1, bint stall=False, bint conflict=False,
            Trace trace=None):
        """Run up to and without cycle `limit` or the end; true where one of the conditions ended it.

        With a `trace` it also comes back when that has a batch of records to be written.

        `start_of`, `end_of`: positions of entries; the run ends after the cycle in which they start, or do their last work.
        `stall`: after a cycle in which a DMA job's stall began. `conflict`: after a cycle in which a bank denied a request.
        """
        self.sim.stops.start_of = start_of
        self.sim.stops.end_of = end_of
        self.sim.stops.on_stall = stall
        self.sim.stops.on_conflict = conflict
        cdef Tracer* tracer = &trace.tracer if trace is not None else NULL
        if tracer != NULL:
            lay_out_traces(&self.sim, self.arena, True)
        with nogil:
            run_until(&self.sim, limit, skip, tracer)
        reraise(self.components)
        error = arbiter_exception(self.arbiter)
        if error is not None and not isinstance(error, Exception):
            raise error
        if tracer != NULL and tracer.lost:
            raise MemoryError("no memory for the records of the trace")
        hit = bool(self.sim.stops.hit)
        self.sim.stops.start_of = self.sim.stops.end_of = NONE
        self.sim.stops.on_stall = self.sim.stops.on_conflict = self.sim.stops.hit = False
        return hit

    def step(self, int64_t n=1, *, bint skip=False):
        """Run `n` cycles, fewer where the run ends; return how many."""
        cdef int64_t before = self.sim.cycle
        self.run(before + n, skip=skip)
        return self.sim.cycle - before

    def failure(self):
        """`(component, cycle, sentence, exception)` where a component ended the run, else None; the exception is None of a C engine."""
        found = plug_failure(&self.sim)
        return None if found is None else (*found, exception_of(self.components[found[0]]))

    def arbiter_failure(self):
        """`(cycle, sentence, exception)` where the arbiter ended the run, else None; the exception is None of one in C."""
        found = arbiter_failure(&self.sim)
        return None if found is None else (*found, arbiter_exception(self.arbiter))

    def component_counters(self):
        """Of each component a dict: `jobs` completed, `bytes` of closed flows, cycles that served requests for banks were `held`."""
        return plug_counters(&self.sim)

    def name_of(self, int64_t number):
        """The name of an event that a component emitted."""
        return (self.sim.plugs.names + number * NAME_ROOM).decode()

    def entries(self):
        """`(issue, start, end)`: int64 arrays over the entries, -1 where that has not come."""
        return entries_of(&self.sim)

    def counters(self):
        """Every counter of docs/model/counters.md after the cycles that have run, as a dict of lists (`state/report.pyx`)."""
        return counters_of(&self.sim)

    def totals(self):
        """What a window of a trace is made of, as arrays (`state/report.pyx`)."""
        return totals_of(&self.sim)

    def outputs(self):
        """Of each output of the machine's routers, then of each link of a terminal into them: flits that left, and clocks of flits
        that waited for a credit, waited for a channel, lost. Empty where transfers do not move over routers."""
        return outputs_of(&self.sim)

    def engines(self):
        """What every engine does now, as a dict of lists of dicts (`state/report.pyx`)."""
        return engines_of(&self.sim)

    def waiting(self):
        """`(waits, gate)`: how many things each entry still waits for, and the position of the barrier that holds the rest."""
        return waiting_of(&self.sim)

    def arrivals(self):
        """The cycle in which each entry arrives in the command queue: an int64 array over the entries, -1 where the host has not begun
        to write the entry. None where the machine has no host that writes entries."""
        return arrivals_of(&self.sim)

    def overlaps(self):
        """Pairs (entry, running entry) of positions for each start that `check_overlap` found fault with."""
        return overlaps_of(&self.sim)

    def number_of(self, int32_t entry):
        """The number of an entry's job, in the order of issue."""
        return self.sim.control.entry[entry].number

    def add_route(self, int64_t memory, list links not None, int64_t latency, through=None):
        """A route of transfers between a memory and an engine, over these links (resources): its number, which transfers name.

        `through`, where transfers move over routers: how many of the links, which come first, flows are members of, and the segments
        of the route: rows (source, target, alone, hops).
        Also while the run goes on, from inside a component. ValueError for what cannot be. A run with such routes is in no snapshot.
        """
        return route_add(&self.sim, self.arena, memory, links, latency, through)

    def open_peers(self, list room not None):
        """Let components' DMA jobs lead to other scratchpads: to each so many at a time, more than it takes by now.

        Also while the run goes on, from inside a component. ValueError for what cannot be. Such a run is in no snapshot.
        """
        peers_open(&self.sim, self.arena, room)

    def wake(self, int64_t component, int64_t at):
        """Let a component, given by its position, run in cycle `at`: from inside another one. ValueError for a cycle that has begun."""
        peers_wake(&self.sim, component, at)

    def describe(self, int64_t job, int32_t row):
        """A component's job is a command, which stands at that row behind the entries; `(Opkind, engine, params, more)` of it.

        ValueError where there is no such job, or it is over.
        """
        return describe_job(&self.sim, job, row)

    def open_jobs(self):
        """`(row, Opkind, engine, channel, issue, start)` of each job of a component that is not over; -1: none."""
        return open_jobs(&self.sim)

    def submitted_work(self):
        """`(MACs by bits of the weights, operations, bytes of streamed operands)` of jobs of components that ended."""
        return submitted_work(&self.sim)

    def submitted_there(self):
        """Of a perturbed run: how many transfers components submitted to each channel of each PE, PE by PE."""
        cdef int32_t k
        return [self.sim.perturbed.submitted[k] for k in range(self.sim.n_spm * CHANNELS)]

    def tracer(self, int32_t level):
        """A `Trace` for this run, for `run`."""
        cdef int32_t words = 1, k
        for k in range(self.sim.n_spm):
            words = max(words, self.sim.spm[k].words)
        trace = Trace(level, 2 * self.sim.n_flows + self.sim.n_compute + self.sim.n_asks, words)     # flows may have far requesters
        trace.tracer.commands = self.sim.control.n
        trace.tracer.row = self.sim.plugs.row if self.sim.plugs != NULL else NULL
        return trace

    def shuffle_lists(self, uint64_t seed):
        """For tests: handle equal events of a cycle in a random order; it must change nothing. 0 ends it."""
        self.sim.shuffle = seed

    def snapshot(self):
        """The model state as bytes; runs that stand alike give equal bytes, however they were walked.

        Of a run with components or an arbiter of its own it is the memory of this build, sealed for this process. ValueError where
        one of these cannot be saved.
        """
        refuse_snapshot(self.components)
        self.refuse_saving()
        if not self.has_plugs():
            return take_snapshot(&self.sim)
        plug_check_snapshot(&self.sim)
        fold(&self.sim)
        return sealed(self.arena.dump() + arbiter_snapshot(&self.sim) + plug_snapshot(&self.sim))

    def restore(self, bytes image not None):
        """Put a snapshot of the same machine and program back.

        ValueError where it is none, and says which value cannot be; the run then stands where it stood. A snapshot of a run with
        components is taken back only by the process that made it: what a component makes of its bytes is not known here.
        """
        self.refuse_saving()
        if self.has_plugs():
            plug_check_snapshot(&self.sim)
            self.restore_whole(unsealed(image))
            return
        before = take_snapshot(&self.sim)
        try:
            resume(&self.sim, self.arena, image)
        except BaseException:
            resume(&self.sim, self.arena, before)
            raise

    def most_state_bytes(self):
        """[B] that a snapshot of this machine and program has at most, wherever it stands. Of a run without components."""
        return most_bytes(&self.sim)

    def digest(self):
        """SHA-256, in hex, of the model state: the same in every process of one build, however the run was walked.

        Of a run with components or an arbiter of its own: of entries, counters, engines and open jobs, and of the bytes that these save.
        ValueError where one of them cannot be saved.
        """
        if not self.has_plugs():
            return hashlib.sha256(self.snapshot()).hexdigest()
        refuse_snapshot(self.components)
        self.refuse_saving()
        plug_check_snapshot(&self.sim)
        seen = [self.cycle, self.status, self.counters(), self.engines()]
        if self.components:
            seen += [self.open_jobs(), self.component_counters()]
        plugged = arbiter_snapshot(&self.sim) + plug_snapshot(&self.sim)
        times = b"".join([column.tobytes() for column in self.entries()])
        return hashlib.sha256(repr(seen).encode() + times + plugged).hexdigest()

    def state(self):
        """What `snapshot` holds, by name: `{table: [{field: value}]}`. Of a run without components."""
        if self.has_plugs():
            raise ValueError("a run with components, or an arbiter of its own, has no model state by itself")
        return show_snapshot(&self.sim)

    cdef int refuse_saving(self) except -1:
        """ValueError where the run has what no snapshot holds."""
        route_refuse_snapshot(&self.sim)
        if self.sim.noc != NULL:
            raise ValueError("a run whose transfers move over routers is in no snapshot")
        if self.sim.perturbed != NULL:
            raise ValueError("a perturbed run is in no snapshot")
        return 0

    cdef bint has_plugs(self):
        """Something plugged in has state that is not known here."""
        return bool(self.components) or self.arbiter is not None

    cdef int restore_whole(self, bytes image) except -1:
        """The memory of a run with components."""
        cdef size_t own
        cdef const char* data = image
        cdef bint plain = self.sim.share.plain
        if len(image) >= <Py_ssize_t>sizeof(Sim):
            lay_out_traces(&self.sim, self.arena, (<const Sim*>data).traced)
        own = self.arena.state_bytes()
        self.arena.load(image[:own])
        self.sim.share.plain = plain            # the image may be of a run with the other walk
        rebuild(&self.sim)
        return plug_restore(&self.sim, image, arbiter_restore(&self.sim, image, own))
