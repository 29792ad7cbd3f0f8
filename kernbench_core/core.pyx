"""`Core`: the Python interface to one run of one program on one machine."""
import os

from kernbench_core.fast.loop cimport begin_fast, catch_up, run_fast
from kernbench_core.fast.threads cimport lay_out_threads, threads_of
from kernbench_core.model.loop cimport finished, run_plain
from kernbench_core.model.routes cimport route_add, route_refuse_snapshot
from kernbench_core.plugin.component cimport component_flow_changed
from kernbench_core.plugin.traced_commands cimport describe_job, open_jobs, submitted_work
from kernbench_core.plugin.peers cimport peers_open, peers_wake
from kernbench_core.plugin.component_tables cimport NAME_BYTES
from kernbench_core.plugin.plug_layout cimport (
    lay_out_plugs, plug_check_snapshot, plug_counters, plug_failure, plug_restore, plug_sizes, plug_snapshot)
from kernbench_core.plugin.plugged_arbiter cimport arbiter_failure, arbiter_restore, arbiter_snapshot, lay_out_arbiter
from kernbench_core.plugin.pyarbiter import arbiter_exception, arbiter_operations
from kernbench_core.plugin.pycomponent import exception_of, operations_of, refuse_snapshot, reraise
from kernbench_core.state.arena cimport LARGE
from kernbench_core.state.counters cimport counters_of, outputs_of, router_queues, totals_of
from kernbench_core.state.fields import state_fields
from kernbench_core.state.layout cimport lay_out, lay_out_traces
from kernbench_core.state.rebuild cimport fold, rebuild
from kernbench_core.state.report cimport arrivals_of, engines_of, entries_of, overlaps_of, waiting_of
from kernbench_core.state.resume cimport resume
from kernbench_core.state.snapshot cimport max_bytes, show_snapshot, take_snapshot
from kernbench_core.trace.events cimport Trace, Tracer
from kernbench_core.types cimport CHANNELS, DONE, NONE, RUNNING, cycle_t, int32_t, int64_t, slot_t, uint64_t


cdef enum:
    BATCH = 1 << 15           # records in a batch of a trace


cdef void component_touched(void* sim, slot_t flow, cycle_t now) noexcept nogil:
    """`Share.touch` of the plain model: only flows of components need to know when their rate changes."""
    cdef Sim* s = <Sim*>sim
    if s.plugs != NULL and flow >= s.plugs.first_flow:
        component_flow_changed(s, flow)


cdef void run_until(Sim* s, cycle_t limit, bint skip, Tracer* trace) noexcept nogil:
    """Run cycles while the run continues and before cycle `limit`, or until a trace has a batch of records."""
    if trace != NULL:
        trace.full = trace.n + BATCH            # the buffer may already contain records of the next cycle
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
    s.share.repace = NULL
    s.share.set_rates = NULL
    s.share.sim = NULL
    s.trace = NULL
    if s.status == RUNNING and finished(s):
        s.status = DONE


def state_layout():
    """The data in which two builds must agree to exchange snapshots: the fields, their widths and ranges."""
    import hashlib  # imported here and below, because a run without checkpoints needs no digest
    return hashlib.sha256(repr(state_fields()).encode()).hexdigest()[:16]


_SEAL = os.urandom(32)         # random key of this process
_TAG = 32                      # [B]


def _sealed(bytes image):
    """The snapshot with a signature of this process."""
    import hashlib
    return hashlib.blake2b(image, digest_size=_TAG, key=_SEAL).digest() + image


def _unsealed(bytes image):
    """The content of a sealed snapshot; ValueError if another process sealed it."""
    import hmac
    if not hmac.compare_digest(_sealed(image[_TAG:])[:_TAG], image[:_TAG]):
        raise ValueError("a snapshot of a run with components is taken back by the process that made it, as it was made")
    return image[_TAG:]


cdef class Core:
    """One run of one program on one machine.

    `machine` and `program` are the plain tables of `kernbench.cmdq.lower`; the tables must be valid. A core is not thread-safe.
    The loop runs without the GIL, so cores in different threads run at the same time.
    """

    def __init__(self, dict machine not None, dict program not None, components=(), *, arbiter=None, bint plain=False, int threads=1):
        """`components`: capsules or `Component` objects; `machine["replaced"]` says which engines they replace.

        `arbiter`: a capsule or an `Arbiter` object, for the scratchpads whose `arbiter` is -1; such a run is a plain run.
        `plain`: the model alone runs every cycle, without fast paths. The run is slower, and the result is the same. `threads`:
        the number of threads that run groups of scratchpads without shared resources (fast/threads.pyx); the result is the
        same.
        """
        if self.arena is not None:
            raise RuntimeError("a Core is made once")
        self.arena = Arena()
        self.arena.large = len(machine["spm"]) >= LARGE
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
        """The next cycle to run, which is also the number of cycles run so far."""
        return self.sim.cycle

    @property
    def threads(self):
        """The number of threads in which groups of scratchpads can run; 1 if there is only one group."""
        return threads_of(&self.sim)

    @property
    def status(self):
        """A `Status`."""
        return self.sim.status

    @property
    def failed_entry(self):
        """The position of the entry whose overlap ended the run; -1 if no overlap ended the run."""
        return self.sim.failed_entry

    def run(self, int64_t limit, *, bint skip=True, int32_t start_of=-1, int32_t end_of=-1, bint stall=False, bint conflict=False,
            Trace trace=None):
        """Run the cycles before `limit`, or until the end; return true if one of the conditions stopped the run.

        With a `trace`, the method also returns when the trace has a batch of records to write.

        `start_of`, `end_of`: positions of entries; the run stops after the cycle in which the entry starts, or in which it does
        its last work. `stall`: stop after a cycle in which a stall of a DMA job began. `conflict`: stop after a cycle in which
        a bank denied a request.
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
        """Run `n` cycles, or fewer if the run ends; return the number of cycles run."""
        cdef int64_t before = self.sim.cycle
        self.run(before + n, skip=skip)
        return self.sim.cycle - before

    def failure(self):
        """`(component, cycle, sentence, exception)` if a component ended the run, else None; a C engine has no exception, so
        this item is None."""
        found = plug_failure(&self.sim)
        return None if found is None else (*found, exception_of(self.components[found[0]]))

    def arbiter_failure(self):
        """`(cycle, sentence, exception)` if the arbiter ended the run, else None; an arbiter in C has no exception, so this
        item is None."""
        found = arbiter_failure(&self.sim)
        return None if found is None else (*found, arbiter_exception(self.arbiter))

    def component_counters(self):
        """A dict for each component: `jobs` completed, `bytes` of closed flows, and the cycles in which its requests for banks
        were `held`."""
        return plug_counters(&self.sim)

    def name_of(self, int64_t number):
        """The name of an event that a component emitted."""
        return (self.sim.plugs.names + number * NAME_BYTES).decode()

    def entries(self):
        """`(issue, start, end)`: int64 arrays over the entries; -1 for an event that has not happened."""
        return entries_of(&self.sim)

    def counters(self):
        """Every counter of docs/model/counters.md after the cycles run so far, as a dict of lists (`state/counters.pyx`)."""
        return counters_of(&self.sim)

    def totals(self):
        """The totals from which windows of a trace are made, as arrays (`state/counters.pyx`)."""
        return totals_of(&self.sim)

    def work(self):
        """For each TE and VE: its MACs or operations, in jobs that have ended."""
        cdef int32_t k
        return [self.sim.compute[k].work for k in range(self.sim.n_compute)]

    def router_queues(self):
        """For the inputs of the machine's routers, as int64 arrays: the flits in their buffers summed over clocks, and the flits by
        channel. The number of packets in the terminals that have not left. Empty if transfers do not move over routers."""
        return router_queues(&self.sim)

    def outputs(self):
        """For each output of the machine's routers, and then for each link from a terminal into them: the flits that left, and
        the clocks in which flits waited for a credit, waited for a channel, or lost the arbitration. Empty if transfers do not
        move over routers."""
        return outputs_of(&self.sim)

    def engines(self):
        """The current activity of every engine, as a dict of lists of dicts (`state/report.pyx`)."""
        return engines_of(&self.sim)

    def waiting(self):
        """`(waits, gate)`: the number of dependencies for which each entry still waits, and the position of the barrier that
        holds back the later entries."""
        return waiting_of(&self.sim)

    def arrivals(self):
        """The cycle in which each entry arrives in the command queue: an int64 array over the entries, -1 if the host has not
        begun to write the entry. None if the machine has no host that writes entries."""
        return arrivals_of(&self.sim)

    def overlaps(self):
        """Pairs (entry, running entry) of positions, one for each start in which `check_overlap` found an overlap."""
        return overlaps_of(&self.sim)

    def number_of(self, int32_t entry):
        """The number of an entry's job, in the order of issue."""
        return self.sim.control.entry[entry].number

    def add_route(self, int64_t memory, list links not None, int64_t latency, through=None):
        """Add a route of transfers between a memory and an engine over these links (resources); return the number by which
        transfers name the route.

        `through`, if transfers move over routers: the number of links, from the first, of which flows are members, and the
        segments of the route as rows (source, target, alone, hops). The method may also be called during the run, from inside a
        component. ValueError for a route that is not valid. A run with such routes cannot be saved in a snapshot.
        """
        return route_add(&self.sim, self.arena, memory, links, latency, through)

    def open_peers(self, list room not None):
        """Let DMA jobs of components lead to other scratchpads: for each scratchpad, the number of such jobs that may be open
        in addition to its present limit.

        The method may also be called during the run, from inside a component. ValueError for a number that is not valid. Such a
        run cannot be saved in a snapshot.
        """
        peers_open(&self.sim, self.arena, room)

    def wake(self, int64_t component, int64_t at):
        """Let the component at a position run in cycle `at`; called from inside another component. ValueError for a cycle that
        has begun."""
        peers_wake(&self.sim, component, at)

    def describe(self, int64_t job, int32_t row):
        """Describe a component's job as a command in the row with this number after the entries: `(Opkind, engine, params,
        more)`.

        ValueError if there is no such job, or if it has ended.
        """
        return describe_job(&self.sim, job, row)

    def open_jobs(self):
        """`(row, Opkind, engine, channel, issue, start)` for each open job of a component; -1 means none."""
        return open_jobs(&self.sim)

    def submitted_work(self):
        """`(MACs by bits of the weights, operations, bytes of streamed operands)` of jobs of components that have ended."""
        return submitted_work(&self.sim)

    def submitted_there(self):
        """In a perturbed run: the number of transfers that components submitted to each channel of each PE, PE by PE."""
        cdef int32_t k
        return [self.sim.perturbed.submitted[k] for k in range(self.sim.n_spm * CHANNELS)]

    def tracer(self, int32_t level):
        """A `Trace` of this run, as the argument of `run`."""
        cdef int32_t words = 1, k
        for k in range(self.sim.n_spm):
            words = max(words, self.sim.spm[k].words)
        # A flow may have a second requester.
        trace = Trace(level, 2 * self.sim.n_flows + self.sim.n_compute + self.sim.n_component_requests, words)
        trace.tracer.commands = self.sim.control.n
        trace.tracer.row = self.sim.plugs.row if self.sim.plugs != NULL else NULL
        return trace

    def shuffle_lists(self, uint64_t seed):
        """For tests: handle equal events of a cycle in a random order, which must not change any result. 0 ends the
        shuffling."""
        self.sim.shuffle = seed

    def snapshot(self):
        """The model state as bytes; runs in equal states give equal bytes, both in plain and in fast walks.

        For a run with components or a user-defined arbiter, the snapshot is an image of the memory of this build, sealed for
        this process. ValueError if a component or the arbiter cannot be saved.
        """
        refuse_snapshot(self.components)
        self.refuse_saving()
        if not self.has_plugs():
            return take_snapshot(&self.sim)
        plug_check_snapshot(&self.sim)
        fold(&self.sim)
        return _sealed(self.arena.dump() + arbiter_snapshot(&self.sim) + plug_snapshot(&self.sim))

    def restore(self, bytes image not None):
        """Restore a snapshot of the same machine and program.

        ValueError for bytes that are not such a snapshot; the error names the value that is not possible, and the run keeps its
        state. Only the process that made a snapshot of a run with components can restore it, because the core does not know how
        a component interprets its bytes.
        """
        self.refuse_saving()
        if self.has_plugs():
            plug_check_snapshot(&self.sim)
            self.restore_whole(_unsealed(image))
            return
        before = take_snapshot(&self.sim)
        try:
            resume(&self.sim, self.arena, image)
        except BaseException:
            resume(&self.sim, self.arena, before)
            raise

    def most_state_bytes(self):
        """[B] The largest size of a snapshot of this machine and program, at any point of the run. Only for a run without
        components."""
        return max_bytes(&self.sim)

    def digest(self):
        """SHA-256, in hex, of the model state: the same in every process with the same build, in plain and in fast walks.

        For a run with components or a user-defined arbiter: the digest of entries, counters, engines and open jobs, and of the
        bytes that the components and the arbiter save. ValueError if one of them cannot be saved.
        """
        import hashlib

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
        """The content of a snapshot by name: `{table: [{field: value}]}`. Only for a run without components."""
        if self.has_plugs():
            raise ValueError("a run with components, or an arbiter of its own, has no model state by itself")
        return show_snapshot(&self.sim)

    cdef int refuse_saving(self) except -1:
        """ValueError if the run has data that no snapshot can contain."""
        route_refuse_snapshot(&self.sim)
        if self.sim.noc != NULL:
            raise ValueError("a run whose transfers move over routers is in no snapshot")
        if self.sim.perturbed != NULL:
            raise ValueError("a perturbed run is in no snapshot")
        return 0

    cdef bint has_plugs(self):
        """Whether a component or an arbiter is plugged in, whose state the core does not know."""
        return bool(self.components) or self.arbiter is not None

    cdef int restore_whole(self, bytes image) except -1:
        """Restore the memory of a run with components."""
        cdef size_t own
        cdef const char* data = image
        cdef bint plain = self.sim.share.plain
        if len(image) >= <Py_ssize_t>sizeof(Sim):
            lay_out_traces(&self.sim, self.arena, (<const Sim*>data).traced)
        own = self.arena.state_bytes()
        self.arena.load(image[:own])
        self.sim.share.plain = plain            # the image may come from a run with the other walk
        rebuild(&self.sim)
        return plug_restore(&self.sim, image, arbiter_restore(&self.sim, image, own))
