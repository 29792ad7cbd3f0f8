"""Laws of commands and jobs: pairs of events, one job at a time on a TE or VE, transfers within the machine's limits,
latencies."""

from __future__ import annotations

from array import array
from collections import deque
from typing import Any

from kernbench.trace.laws.law import ENDS, Context, Job, Law, ends_of
from kernbench.trace.laws.line import OMITTED, Line
from kernbench_core.numbers import CHANNELS, COMM_CHANNEL, TRANSFER_CHANNELS

#: Bits of `Job.seen`.
_END_BIT, _ENGINE_EVENT_BIT, _JOB_DONE_BIT = ENDS["END"], ENDS["ENGINE_EVENT"], ENDS["JOB_DONE"]
#: Indices in `Commands.events`.
_CMD_ENQUEUE, _CMD_START, _CMD_END = range(3)
#: Indices in `Jobs.events`.
_DMA_START, _TE_START, _VE_START, _DMA_END, _TE_END, _VE_END, _JOB_ISSUE, _JOB_DONE, _ENGINE_EVENT = range(9)


class States:
    """A number for each id; -1 for a missing id. The compiled form of `trace.columns.IdMap`."""

    def __init__(self, expected: int) -> None:
        self._dense = array("i", [0])  # by id: 1 + number, 0 for none
        self._size = 1  # of `_dense`
        self._sparse: dict[int, int] = {}
        self._limit = min(4 * max(expected, 0) + 4096, 1 << 24)

    def put(self, key: int, number: int) -> None:
        """Set the number of an id."""
        if key >= self._limit:
            self._sparse[key] = number
            return
        if key >= self._size:
            self._dense.frombytes(bytes(self._dense.itemsize * (key + 1 - self._size)))
            self._size = key + 1
        self._dense[key] = number + 1

    def get(self, key: int) -> int:
        """The number of an id."""
        if key < self._size:
            return self._dense[key] - 1
        return self._sparse.get(key, -1)

    def items(self) -> list[tuple[int, int]]:
        """Ids and their numbers, small ids first."""
        dense = [(key, number - 1) for key, number in enumerate(self._dense) if number]
        return dense + sorted(self._sparse.items())


class Commands(Law):
    """CMD_ENQUEUE, CMD_START and CMD_END; each command takes four bytes of memory."""

    events = ("CMD_ENQUEUE", "CMD_START", "CMD_END")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._units: dict[str, int] = {}
        self._states = States(context.meta.commands)  # 3 * number of the command's unit + state (0 queued, 1 started, 2 over)
        self._enqueued = 0

    def check(self, record: Line, event: int) -> None:
        if event == _CMD_ENQUEUE:
            self._enqueue(record)
        elif event == _CMD_START:
            self._start(record)
        else:
            self._end(record)

    def _unit(self, name: str) -> int:
        found = self._units.get(name)
        if found is None:
            found = self._units[name] = len(self._units)
        return found

    def _enqueue(self, record: Line) -> None:
        self._enqueued += 1
        if self._states.get(record.cmd_id) >= 0:
            self.context.report("pair", f"command {record.cmd_id} is queued twice")
        self._states.put(record.cmd_id, 3 * self._unit(record.unit))

    def _start(self, record: Line) -> None:
        state = self._states.get(record.cmd_id)
        if state >= 0 and state == 3 * self._unit(record.unit):
            self._states.put(record.cmd_id, state + 1)
        else:
            self._step(record, "starts", 0, "queued")

    def _end(self, record: Line) -> None:
        state = self._states.get(record.cmd_id)
        if state >= 0 and state == 3 * self._unit(record.unit) + 1:
            self._states.put(record.cmd_id, state + 1)
        else:
            self._step(record, "ends", 1, "started")

    def _step(self, record: Line, does: str, before: int, expected: str) -> None:
        """A command that is not in the usual state."""
        state = self._states.get(record.cmd_id)
        if state < 0:
            if self.context.partial:
                return
            self.context.report("pair", f"command {record.cmd_id} {does}, but it is not queued")
            state = 3 * self._unit(record.unit) + before
        unit = list(self._units)[state // 3]
        if unit != record.unit:
            self.context.report("pair", f"command {record.cmd_id} {does} on {record.unit}, but it is queued for {unit}")
        cut_off = does == "ends" and record.status != "OK" and state % 3 == 0
        if state % 3 != before and not cut_off and not (self.context.partial and state % 3 < before):
            now = ("queued", "started", "over")[state % 3]
            self.context.report("pair", f"command {record.cmd_id} {does}, but it is {now}, not {expected}")
        self._states.put(record.cmd_id, state - state % 3 + before + 1)

    def finish(self, end: Any) -> None:
        if self.context.partial:
            return
        for cmd_id, state in self._states.items():
            if state % 3 != 2:
                self.context.report("pair", f"command {cmd_id} has no CMD_END")
        more = "COMPONENT" in self.context.units.values()  # components may submit commands
        host = "mmio" in (self.context.meta.sim_config.get("control") or {})  # the host may not have written all commands
        fewer = self._enqueued < self.context.meta.commands and not (host and end.status != "done")
        if fewer or (self._enqueued > self.context.meta.commands and not more):
            text = f"TRACE_META has {self.context.meta.commands} commands, but {self._enqueued} are queued"
            self.context.report("end", text, 1)


class Engine:
    """The running jobs of an engine."""

    def __init__(self, track: dict[str, Any]) -> None:
        self.plugged = "impl" in track  #: a plugged-in component
        self.has_period = track.get("period", 1) != 1
        self.overlaps = track.get("drain") == "overlapped"  #: an array: jobs start while others drain
        self.running = -1  #: the running job of a TE or VE; -1: none
        self.inside: deque[int] = deque()  #: jobs that have started and not ended, if jobs overlap
        self.transfers = 0  #: running transfers of a DMA engine, without those between PEs
        self.on_channel: dict[int, int] = {}  #: running transfers by channel


class Jobs(Law):
    """JOB_ISSUE to JOB_DONE, and the events of the engine between them."""

    events = (
        "DMA_START", "TE_START", "VE_START", "DMA_END", "TE_END", "VE_END", "JOB_ISSUE", "JOB_DONE", "ENGINE_EVENT",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._engines: dict[str, Engine] = {}
        self._limit, self._limits = _limits(context.meta.sim_config)

    def check(self, record: Line, event: int) -> None:
        if event <= _VE_START:
            self._start(record)
        elif event <= _VE_END:
            self._end(record)
        elif event == _JOB_ISSUE:
            self._issue(record)
        elif event == _JOB_DONE:
            self._done(record)
        else:
            self._event(record)

    def _issue(self, record: Line) -> None:
        context = self.context
        if context.job(record.job_id) is not None:
            context.report("pair", f"job {record.job_id} is issued twice")
        kind = context.units.get(record.unit, "")
        context.add(Job(record.job_id, record.cmd_id, record.unit, kind, record.t_cycle, record.job_type))

    def _engine(self, unit: str) -> Engine:
        found = self._engines.get(unit)
        if found is None:
            found = self._engines[unit] = Engine(self.context.tracks.get(unit, {}))
        return found

    def _of(self, record: Line, what: str) -> Job | None:
        """The job of an event, which must be of its command and unit."""
        job = self.context.job(record.job_id)
        if job is None:
            if not self.context.partial:
                self.context.report("pair", f"job {record.job_id} {what}, but it is not issued, or over")
        elif job.cmd != record.cmd_id or job.unit != record.unit:
            text = f"is of command {record.cmd_id} on {record.unit}, but was issued for command {job.cmd} on {job.unit}"
            self.context.report("pair", f"job {record.job_id} {text}")
        return job

    def _start(self, record: Line) -> None:
        context = self.context
        kind = record.component
        job = self._of(record, "starts")
        engine = self._engine(record.unit)
        if kind == "DMA":
            self._transfer_starts(record, engine)
        else:
            if engine.overlaps:
                engine.inside.append(record.job_id)
            elif engine.running >= 0 and not engine.plugged:
                text = f"job {record.job_id} starts on {record.unit}, but job {engine.running} has not ended"
                context.report("overlap", text)
            engine.running = record.job_id
        if job is None:
            if not context.partial:
                return
            job = Job(record.job_id, record.cmd_id, record.unit, kind, -1, "")
            context.add(job)
        if job.start >= 0:
            context.report("pair", f"job {record.job_id} starts twice")
        job.start, job.start_line = record.t_cycle, context.line
        if kind == "DMA":
            job.size, job.head, job.channel = record.size_bytes, record.head_cycles, record.channel
            job.ends_in = context.ends_of_transfer(record.unit, record.direction)
        else:
            job.total = record.total_cycles

    def _transfer_starts(self, record: Line, engine: Engine) -> None:
        channel = record.channel
        if channel != COMM_CHANNEL:
            engine.transfers += 1
        running = engine.on_channel[channel] = engine.on_channel.get(channel, 0) + 1
        if self._limit is not None and engine.transfers > self._limit:
            text = f"{engine.transfers} transfers run on {record.unit}, but dma.max_concurrent_transfers is {self._limit}"
            self.context.report("concurrency", text)
        most = self._limits.get(channel)
        if most is not None and running > most:
            text = f"{running} transfers run on {record.unit} {CHANNELS[channel]}, but its max_concurrent is {most}"
            self.context.report("concurrency", text)

    def _end(self, record: Line) -> None:
        context = self.context
        job = self._of(record, "ends")
        engine = self._engine(record.unit)
        transfer = record.component == "DMA"
        if transfer:
            if record.channel != COMM_CHANNEL:
                engine.transfers -= 1
            engine.on_channel[record.channel] = engine.on_channel.get(record.channel, 0) - 1
        elif engine.overlaps:
            self._drained(record, engine)
        elif engine.running == record.job_id:
            engine.running = -1
        if job is None:
            return
        if job.start < 0:
            if not context.partial:
                context.report("pair", f"job {record.job_id} ends, but it has not started")
            return
        self._latency(record, job.start, "starts")
        if transfer:
            if record.channel != job.channel:
                context.report("pair", f"job {job.number} ends on channel {record.channel}, but it started on {job.channel}")
        else:
            job.stalled = record.stall_cycles
            self._length(record, job, engine)
        self._over(job, _END_BIT, record.t_cycle)

    def _drained(self, record: Line, engine: Engine) -> None:
        """A job ends on an engine whose jobs overlap."""
        if record.job_id not in engine.inside:
            return
        first = engine.inside[0]
        if first != record.job_id and not engine.plugged:
            self.context.report("overlap", f"job {record.job_id} ends on {record.unit} before the earlier job {first}")
        engine.inside.remove(record.job_id)

    def _length(self, record: Line, job: Job, engine: Engine) -> None:
        """The latency of a TE or VE job is the sum of its work and its waits; if the period is above 1, the cycles between
        ticks count too. A plugged-in component decides the time of its own jobs.
        """
        if engine.plugged or engine.has_period:
            return
        if record.latency_cycles - job.total != record.stall_cycles:
            text = f"takes {record.latency_cycles} cycles, {job.total} of them work, but stall_cycles is {record.stall_cycles}"
            self.context.report("cycles", f"job {job.number} on {record.unit} {text}")

    def _latency(self, record: Line, since: int, what: str) -> None:
        cycles = record.t_cycle - since
        if record.latency_cycles != cycles:
            text = f"{what} at {since} and ends at {record.t_cycle}, but latency_cycles is {record.latency_cycles}"
            self.context.report("latency", f"job {record.job_id} {text}")

    def _done(self, record: Line) -> None:
        job = self._of(record, "is done")
        if job is None:
            return
        if job.issued >= 0:
            self._latency(record, job.issued, "is issued")
            if record.job_type != job.job_type:
                text = f"is done as {record.job_type}, but was issued as {job.job_type}"
                self.context.report("pair", f"job {record.job_id} {text}")
        self._over(job, _JOB_DONE_BIT, record.t_cycle)

    def _event(self, record: Line) -> None:
        job = self._of(record, "has an ENGINE_EVENT")
        if job is None:
            return
        if record.end_cycle != record.t_cycle or (job.start >= 0 and record.start_cycle != job.start):
            reported = f"its ENGINE_EVENT says {record.start_cycle} to {record.end_cycle}"
            text = f"runs from {job.start} to {record.t_cycle}, but {reported}"
            self.context.report("latency", f"job {record.job_id} {text}")
        if job.kind == "DMA" and job.start >= 0 and record.bytes != job.size:
            text = f"moves {job.size} bytes, but its ENGINE_EVENT says {None if record.bytes == OMITTED else record.bytes}"
            self.context.report("bytes", f"job {record.job_id} {text}")
        self._over(job, _ENGINE_EVENT_BIT, record.t_cycle)

    def _over(self, job: Job, bit: int, t_cycle: int) -> None:
        """One of the events at a job's end."""
        if job.seen & bit:
            (what,) = [name for name, its in ENDS.items() if its == bit]
            self.context.report("pair", f"job {job.number} has two {_named(job, what)}")
        if job.seen and job.end != t_cycle:
            self.context.report("pair", f"the events at the end of job {job.number} are in two cycles, {job.end} and {t_cycle}")
        job.end = t_cycle
        job.end_line = self.context.line
        self.context.over(job, bit)

    def finish(self, end: Any) -> None:
        if self.context.partial:
            return
        for number in sorted(self.context.jobs):
            job = self.context.jobs[number]
            if job.seen:
                missing = ", ".join([_named(job, what) for what in ends_of(job) if not job.seen & ENDS[what]])
                self.context.report("pair", f"job {number} is over, but has no {missing}", job.end_line)
            elif end.status == "done":
                self.context.report("pair", f"job {number} has no end, but the run is done", job.start_line)


def _named(job: Job, what: str) -> str:
    """An event at a job's end by its name."""
    return f"{job.kind}_END" if what == "END" else what


def _limits(machine: dict[str, Any]) -> tuple[int | None, dict[int, int]]:
    """The largest numbers of transfers of a DMA engine and of its channels; empty if the machine does not state them."""
    pe = machine.get("pe", machine)
    dma = pe.get("dma") if isinstance(pe, dict) else None
    if not isinstance(dma, dict):
        return None, {}
    limit, channels = dma.get("max_concurrent_transfers"), dma.get("channels")
    limits = {}
    for i, name in enumerate(TRANSFER_CHANNELS):
        channel = channels.get(name) if isinstance(channels, dict) else None
        most = channel.get("max_concurrent") if isinstance(channel, dict) else None
        if isinstance(most, int):
            limits[i] = most
    queues = pe.get("ipcq")
    if isinstance(queues, dict) and isinstance(queues.get("max_concurrent"), int):
        limits[COMM_CHANNEL] = queues["max_concurrent"]
    return limit if isinstance(limit, int) else None, limits
