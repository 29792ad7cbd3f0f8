"""The state of a run at one cycle: engines, queues, banks, flows, credits, kernels and tensors, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import nearest
from kernbench.debug.expression import Name, Value
from kernbench.debug.timeline import Timeline
from kernbench.sim_engine.run.counters import named_counters
from kernbench.sim_engine.run.state import engine_state

if TYPE_CHECKING:
    from kernbench.common.dtypes import Array
    from kernbench.sim_engine.run.commands import Commands
    from kernbench.sim_engine.run.state import EngineState, MachineState

ENGINE = (
    "activity", "entry", "opcode", "started", "body_left", "held_since", "next_event", "line",
    "jobs", "queue", "bytes_left", "rate", "stall",
)  # fmt: skip
RESOURCE = ("members", "bytes", "busy", "rate")
BANK = ("requests", "grants", "denials", "granted", "denied")
ENTRY = ("issue", "start", "end", "opcode")
KERNEL = ("launch", "program", "line", "waits", "since", "in_flight", "implicit_waits")
QUEUE = ("slots", "used", "credits", "in_flight", "inbox", "waiting", "received")
TENSOR = ("sum", "min", "max", "known")
#: The fields of each kind of object, as `help names` lists them.
FIELDS = {
    "engine": ENGINE,
    "resource": RESOURCE,
    "bank": BANK,
    "entry": ENTRY,
    "kernel": KERNEL,
    "queue": QUEUE,
    "tensor": TENSOR,
}
SHOWN = 8  # elements of a tensor


@dataclass(frozen=True, slots=True)
class Bank:
    """One bank of a scratchpad: its counts so far, and those of the last cycle."""

    requests: int
    grants: int
    denials: int
    granted: int | None  #: grants in the last cycle; None at cycle 0
    denied: int | None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue from one PE to another."""

    name: str  #: `rank0.E`: the sender's rank and side
    target: str
    slots: int
    used: int  #: slots that are taken
    credits: int  #: slots that the sender may fill now or later, according to its credits
    in_flight: int  #: messages that have not arrived
    inbox: int  #: messages that have arrived, but have not been received
    waiting: int  #: sends that wait for a credit
    received: int


class State:
    """The state of a timeline at its present cycle. Values are read on demand, and are no longer valid after the timeline has
    moved."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._live = timeline.live
        self.machine = self._live.machine

    @property
    def cycle(self) -> int:
        """[cycle] The number of cycles run."""
        return self.machine.cycle

    @property
    def status(self) -> str:
        """running, done, aborted, deadlock or failed."""
        return self.machine.status

    @cached_property
    def peeked(self) -> MachineState:
        """Every engine."""
        return self.machine.peek()

    @cached_property
    def engines(self) -> Mapping[str, EngineState]:
        """Every engine by name."""
        return {engine.name: engine for engine in self.peeked.engines}

    @cached_property
    def counters(self) -> dict[str, Any]:
        """Counters by engine, channel, link and scratchpad."""
        return named_counters(self.machine.plan, self._raw)

    @cached_property
    def _raw(self) -> dict[str, Any]:
        found: dict[str, Any] = self.machine._core.counters()
        return found

    @cached_property
    def times(self) -> tuple[Any, Any, Any]:
        """Issue, start and end of each entry; -1 for an event that has not happened."""
        issue, start, end = self.machine._core.entries()
        return issue, start, end

    @cached_property
    def kernels(self) -> list[Any]:
        """The kernel of each PE; none for a program."""
        return [] if self._live.engine is None else self._live.engine.activity.system.states()

    @cached_property
    def banks(self) -> dict[str, list[Bank]]:
        """The banks of each scratchpad."""
        before = self._timeline.before
        found = {}
        for k, name in enumerate(self.machine.plan.scratchpads):
            now = self._raw["spm"][k]
            last = None if before is None else before["spm"][k]
            found[name] = [
                Bank(
                    now["requests"][i],
                    now["grants"][i],
                    now["denials"][i],
                    None if last is None else now["grants"][i] - last["grants"][i],
                    None if last is None else now["denials"][i] - last["denials"][i],
                )
                for i in range(len(now["grants"]))
            ]
        return found

    @cached_property
    def queues(self) -> dict[str, Queue]:
        """Queues between PEs by name; `rank0.E` leads from rank 0 to its neighbour in the east, and `rank0.E1` does so in plane
        1."""
        if self._live.engine is None:
            return {}
        found = {}
        for ring in self._live.engine.activity.system.queues.rings:
            plane = ring.source.plane or ""
            name = f"rank{ring.source.rank}.{ring.source.direction}{plane}"
            counts = (ring.slots - ring.used, ring.in_flight, ring.inbox, ring.waiting, ring.taken)
            found[name] = Queue(name, ring.target_name, ring.slots, ring.used, *counts)
        return found

    # Tensors -----------------------------------------------------------------------------------------------------------

    @property
    def tensor_names(self) -> list[str]:
        """The tensors of a bench; a program has none."""
        return [] if self._live.engine is None else list(self._live.engine.activity.context.tensors)

    @cached_property
    def _store(self) -> Any:
        """The memories after the commands that have ended so far: Phase 2 of the log so far."""
        from kernbench.sim_engine.data_executor import DataExecutor

        engine = self._live.engine
        assert engine is not None and engine.op_log is not None
        return DataExecutor(engine.op_log).run().store

    def tensor(self, name: str) -> tuple[Array | None, str]:
        """The present elements of a tensor; if there are none, the reason.

        Elements that a store of the kernel has issued count as stored. InputError for a name that the run does not have.
        """
        names = self.tensor_names
        if name not in names:
            near = nearest(name, names)
            there = f"tensors: {', '.join(names)}" if names else "only benches and collectives have tensors"
            remedy = f"did you mean {near}?" if near else ""
            raise InputError(Problem("tensor", f"no object has this name; {there}", "name", name, remedy))
        engine = self._live.engine
        assert engine is not None
        made = engine.activity.context.tensors[name]
        if made.host is not None and not made.deployed:
            return made.host, ""
        try:
            return made.gather(self._store), ""
        except ValueError as error:
            return None, str(error)

    # Names -------------------------------------------------------------------------------------------------------------

    @cached_property
    def objects(self) -> dict[str, str]:
        """All named objects, with their kinds."""
        plan = self.machine.plan
        found = dict.fromkeys((*plan.dma, *plan.compute), "engine")
        found |= dict.fromkeys(plan.resources, "resource")
        found |= dict.fromkeys(plan.scratchpads, "spm")
        found |= dict.fromkeys((state.pe for state in self.kernels), "kernel")
        found |= dict.fromkeys(self.queues, "queue")
        return found

    def find(self, name: str) -> str | None:
        """The full name of an object; the end of a name is sufficient if only one object has it (`pe0.dma0`)."""
        if name in self.objects:
            return name
        ends = [one for one in self.objects if one.endswith(f".{name}")]
        return ends[0] if len(ends) == 1 else None

    def value(self, name: Name) -> Value:
        """The value of a name in this state. InputError for a name that no state of this run has."""
        parts = name.parts
        if parts in (("cycle",), ("status",)):
            return self.cycle if parts == ("cycle",) else self.status
        if parts[0] in ("entry", "tensor") and len(parts) > 1:
            return self._entry(name) if parts[0] == "entry" else self._tensor_value(name)
        names = self._timeline.names
        if name.text not in names:
            names[name.text] = self._resolve(name)
        kind, found, count = names[name.text]
        return self._field(kind, found, parts[count:], name)

    def _resolve(self, name: Name) -> tuple[str, str, int]:
        """The kind and the full name of the object, and the number of name components that it uses."""
        words = [part for part in name.parts if isinstance(part, str)]
        for count in range(len(words), 0, -1):
            if tuple(words[:count]) != name.parts[:count]:
                continue
            found = self.find(".".join(words[:count]))
            if found is not None:
                return self.objects[found], found, count
        raise self._unknown(name)

    def engine(self, name: str) -> EngineState:
        """One engine, by its full name."""
        if "peeked" in self.__dict__:
            return self.engines[name]
        return engine_state(self.machine.plan, self._known, self._engines, name, self.cycle)

    @cached_property
    def _engines(self) -> dict[str, Any]:
        found: dict[str, Any] = self.machine._core.engines()
        return found

    @cached_property
    def _known(self) -> Commands:
        return self.machine.keep_commands()

    def _field(self, kind: str, found: str, rest: tuple[str | int, ...], name: Name) -> Value:
        if kind == "spm":
            return self._bank(self.banks[found], rest, name)
        what = str(rest[0]) if rest else {"engine": "activity", "resource": "members", "kernel": "line", "queue": "used"}[kind]
        if len(rest) > 1 or what not in FIELDS[kind]:
            raise self._no_field(name, kind, what)
        if kind == "engine":
            return _of_engine(self.engine(found), what)
        if kind == "resource":
            return self._of_resource(found, what)
        one = self.queues.get(found) if kind == "queue" else next((one for one in self.kernels if one.pe == found), None)
        value: Value = getattr(one, what, None)
        return value if value != "" else None

    def _of_resource(self, name: str, what: str) -> Value:
        position = self.machine.plan.resources.index(name)
        if what in ("members", "rate"):
            raw = self._engines["resources"][position]
            rate = Fraction(raw["num"], raw["den"]) if raw["members"] and raw["den"] else None
            members: Value = raw["members"]
            return members if what == "members" else rate
        value: Value = self._raw["resources"][position][what]
        return value

    def _bank(self, banks: list[Bank], rest: tuple[str | int, ...], name: Name) -> Value:
        if rest and rest[0] in BANK and len(rest) == 1:
            values = [getattr(bank, str(rest[0])) for bank in banks]
            return None if None in values else sum(values)
        if len(rest) < 2 or rest[0] != "bank" or not isinstance(rest[1], int):
            raise self._no_field(
                name, "bank", ".".join(map(str, rest)), "write spm.bank[3].denials, or spm.denials for all banks"
            )
        if rest[1] >= len(banks):
            raise InputError(Problem("expression", f"there are {len(banks)} banks, numbered from 0", "bank", rest[1]))
        what = str(rest[2]) if len(rest) > 2 else "denials"
        if len(rest) > 3 or what not in BANK:
            raise self._no_field(name, "bank", what)
        value: Value = getattr(banks[rest[1]], what)
        return value

    def _entry(self, name: Name) -> Value:
        program, parts = self.machine.rows, name.parts
        position = self.machine._position.get(parts[1]) if isinstance(parts[1], int) else None
        if position is None:
            raise InputError(Problem("expression", "no entry of the program has this id", "entry", parts[1]))
        what = parts[2] if len(parts) > 2 else "start"
        if len(parts) > 3 or what not in ENTRY:
            raise self._no_field(name, "entry", str(what))
        if what == "opcode":
            return program.entries[position].opcode
        at = int(self.times[ENTRY.index(str(what))][position])
        return None if at < 0 else at

    def _tensor_value(self, name: Name) -> Value:
        early = self._live.engine is not None and not self.tensor_names  # the bench has not made its tensors yet
        values = None if early else self.tensor(str(name.parts[1]))[0]
        rest = name.parts[2:]
        if rest == ("known",):
            return values is not None
        if len(rest) == 1 and rest[0] in ("sum", "min", "max"):
            if values is None or not values.size:
                return None
            return _plain(getattr(np.asarray(values, np.float64), str(rest[0]))())
        if not rest or not all(isinstance(part, int) for part in rest):
            raise self._no_field(name, "tensor", ".".join(map(str, rest)), "or give an index: tensor.out[0]")
        if values is None:
            return None
        indices = tuple(int(part) for part in rest)
        flat = len(indices) == 1
        size = (values.size,) if flat else values.shape
        if len(indices) != len(size) or any(i >= n for i, n in zip(indices, size, strict=True)):
            rule = f"its shape is {values.shape}: give one index into all elements, or one for each axis"
            raise InputError(Problem("expression", rule, "tensor", name.text))
        return _plain(values.reshape(-1)[indices[0]] if flat else values[indices])

    def _unknown(self, name: Name) -> InputError:
        near = nearest(".".join(map(str, name.parts[:2])), [*self.objects]) or nearest(
            str(name.parts[0]), [*self.objects, "cycle", "status", "entry", "tensor", "spm"]
        )
        remedy = f"did you mean {near}?" if near else "names lists what there is"
        return InputError(Problem("expression", "nothing has this name", "name", name.text, remedy))

    def _no_field(self, name: Name, kind: str, what: str, remedy: str = "") -> InputError:
        rule = f"{kind} has no {what or 'value'}; it has {', '.join(FIELDS[kind])}"
        return InputError(Problem("expression", rule, "name", name.text, remedy))

    # Comparison --------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """All data by which two runs can be compared: a flat dict of engines, flows, counters, entries, kernels and queues."""
        found: dict[str, Any] = {"status": self.status}
        found |= {f"{name}.{what}": _of_engine(one, what) for name, one in self.engines.items() for what in ENGINE}
        found |= {f"{name}.members": count for name, count in self.peeked.members.items()}
        found |= {
            f"{name}.{what} (counter)": value
            for name, values in self.counters.items()
            for what, value in values.items()
            if what != "idle"
        }
        for what, column in zip(ENTRY[:3], self.times, strict=True):
            times = zip(self.machine.rows.entries, column.tolist(), strict=True)
            found |= {f"entry[{entry.id}].{what}": at for entry, at in times if at >= 0}
        found |= {f"{state.pe}.{what}": getattr(state, what) for state in self.kernels for what in KERNEL}
        found |= {f"{name}.{what}": getattr(queue, what) for name, queue in self.queues.items() for what in QUEUE}
        return found


def _of_engine(engine: EngineState, what: str) -> Value:
    if what == "jobs":
        return len(engine.jobs) + (engine.entry is not None)
    if what == "queue":
        return len(engine.queue)
    if what == "bytes_left":
        return sum(job.bytes_left for job in engine.jobs)
    if what == "rate":
        return sum((job.rate for job in engine.jobs), Fraction(0))
    if what == "stall":
        reasons = [*(job.stall for job in engine.jobs), *engine.queue_stalls]
        return next((reason for reason in reasons if reason), None)
    if engine.jobs and what in ("entry", "opcode", "line"):
        first = engine.jobs[0]
        return first.id if what == "entry" else first.opcode if what == "opcode" else first.line
    value: Value = getattr(engine, what)
    return value


def _plain(value: Any) -> Value:
    """An element of a tensor as a number."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def tensor_text(values: Array) -> str:
    """The first elements of a tensor, with its shape and type."""
    flat = values.reshape(-1)[:SHOWN]
    text = ", ".join(f"{float(one):.6g}" for one in flat)
    more = ", ..." if values.size > SHOWN else ""
    return f"{tuple(values.shape)} {values.dtype}: {text}{more}"
