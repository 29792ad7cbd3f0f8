"""Jobs of components as commands, for traces and for the state of engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.opcodes import META_FIELDS
from kernbench.cmdq.plan import Plan
from kernbench.common import naming
from kernbench.components.service import PARAMETERS
from kernbench_core.numbers import EngineType, Opkind

ENGINES = {EngineType.TE: "te", EngineType.VE: "ve", EngineType.COMPONENT: "cpu"}  # M_CPUs are the core's components
PEER = 8  # the parameter of a transfer between scratchpads that names the other one
WHERE = ("bytes", "spm_addr", "memory")  # parameters that the core adds for a transfer
SAYS = {"te": ("m", "n", "k"), "ve": ("length", "batch")}  #: parameters that a component may leave out, and events have
KNOWN = frozenset(spec.name for spec in META_FIELDS)

#: Set the row that describes a job in the core; it returns `(Opkind, engine, parameters, WHERE)`.
Describe = Callable[[int, int], tuple[int, int, tuple[int, ...], tuple[int, ...]]]


class Command(msgspec.Struct, frozen=True):
    """A job that a component submitted, with the names that entries of a queue have."""

    index: int  #: its row, after those of the queue
    id: int
    opcode: str
    engine: str  #: dma, te, ve, cpu or component
    unit: str  #: who runs it
    number: int  #: of that engine, among DMA engines or the others
    given: dict[str, int]  #: the job's parameters by name
    deps: tuple[int, ...] = ()  #: ids of commands that it waited for
    meta: dict[str, Any] = {}  #: metadata like that of an entry: `phase`, `layer_id`, `marker`, ...
    visible: int | None = None  #: [cycle] from which the message that it waited for could be used

    @property
    def command_id(self) -> int:
        """Its id, by the name that entries have for it."""
        return self.id

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"command {self.id} ({self.opcode})"


class Commands:
    """Every command of a run: the entries of the queue, then what components say that they submit.

    A component that submits a job and calls `add` with its id, in the same call of the core, makes a command of it.
    """

    def __init__(self, program: Program, plan: Plan, parts: Sequence[str], describe: Describe) -> None:
        """`parts`: names of components, by position."""
        self._program, self._plan, self._parts, self._describe = plan.rows(program), plan, parts, describe
        self._entries = len(self._program.entries)
        self._next = max((entry.command_id for entry in self._program.entries), default=-1) + 1
        self.added: list[Command] = []

    def add(
        self,
        job: int,
        opcode: str,
        *,
        unit: str = "",
        id: int | None = None,
        deps: Sequence[int] = (),
        visible: int | None = None,
        **meta: Any,
    ) -> int:
        """A submitted job is a command; returns its id, which is above all others unless `id` says it.

        `unit` names the component of a job for one: engines are known. `visible`: of a job that waited for a message with a
        flag, the cycle from which the message could be used. `meta`: fields of an entry (docs/reference/program.md).
        ValueError if the job is over, or lacks parameters that its events have.
        """
        unknown = sorted(meta.keys() - KNOWN)
        if unknown or (unit and unit not in self._parts):
            what = f"a command has no {unknown[0]}" if unknown else f"there is no component {unit}"
            raise ValueError(f"{what}: there is {', '.join(sorted(KNOWN) if unknown else self._parts)}")
        index = self._entries + len(self.added)
        op, number, params, where = self._describe(job, index)
        engine, name, given = self._what(op, number, params, where, unit)
        missing = [key for key in SAYS.get(engine, ()) if key not in given]
        number_of = self._next if id is None else id
        self._next = max(self._next, number_of + 1)
        zeros = dict.fromkeys(missing, 0)  # the run fails now, and its trace is whole
        said = given | zeros, tuple(sorted({*deps})), meta, visible
        self.added.append(Command(index, number_of, opcode, engine, name, number, *said))
        if missing or (engine == "component" and not unit):
            what = f"its {', '.join(missing)}" if missing else "a unit, the name of the component that it is for"
            raise ValueError(f"job {job} is told as {opcode}, and events of a {engine} need {what}")
        return number_of

    def _what(
        self, op: int, number: int, params: tuple[int, ...], where: tuple[int, ...], unit: str
    ) -> tuple[str, str, dict[str, int]]:
        if op == Opkind.OP_DMA:
            given = dict(zip(PARAMETERS["dma"], params, strict=False)) | dict(zip(WHERE, where, strict=True))
            peer = {"peer": params[PEER]} if len(params) > PEER and params[PEER] >= 0 else {}
            return "dma", self._plan.dma[number], given | peer
        if op == Opkind.OP_COMPUTE:
            engine = ENGINES[self._plan.machine["compute"][number]["kind"]]
            return engine, self._plan.compute[number], dict(zip(PARAMETERS[engine], params, strict=False))
        return "component", unit or naming.CONTROL, {}

    def __len__(self) -> int:
        return self._entries + len(self.added)

    def __getitem__(self, index: int) -> Entry | Command:
        """The entry of the queue, or the added command, at a position."""
        return self._program.entries[index] if index < self._entries else self.added[index - self._entries]

    def unit(self, index: int) -> str:
        """Who runs it."""
        return self._plan.units[index] if index < self._entries else self.added[index - self._entries].unit
