"""The PE that a kernel runs on: its scratchpad, its commands, and the jobs that they become (docs/model/kernels.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple, Protocol

from .ref_control import Record
from .ref_geometry import Scratchpad, aligned_rows, ceil_div

BITS = {"f32": 32, "f16": 16, "i8": 8}
COMMAND, TILE, MESSAGE = range(3)  # what a PE continues with in P1, in this order


class Rows(NamedTuple):
    """The bytes of a tile in its tensor."""

    offset: int
    rows: int
    row_bytes: int
    stride: int

    @property
    def nbytes(self) -> int:
        return self.rows * self.row_bytes


class Keys(NamedTuple):
    """The keys of a PE that only kernels use. A single NPU has none of them."""

    cycles: int = 0  # `pe.scheduler`
    queue_depth: int = 64
    fetch_cycles: int = 0  # `pe.fetch_store`
    fetch_rate: Fraction | None = None
    queue_cycles: int = 0  # `pe.ipcq`


class Command:
    """A command of a kernel, from its issue to its end. `uses`: tiles that it keeps."""

    def __init__(self, uses: Sequence[Any] = ()) -> None:
        self.uses: Sequence[Any] = uses
        self.is_over = False


class Stage:
    """The jobs of a command, or of a stage of a composite op, for one engine. `name` and `pe`: of its entry in the op log."""

    def __init__(self, name: str, over: Callable[[int], None], jobs: Sequence[dict[str, Any]], pe: str = "") -> None:
        self.entries = [(pe, name)]  # PE (if it is another one) and name, of each of its entries
        self.over = over
        self.records = [Record(0, {**job, "id": 0}) for job in jobs]


class Engines(Protocol):
    """The simulation that the PE belongs to. `memory_of`: the memory, or slice of HBM, that holds a byte."""

    memory_of: Callable[[int], Any]

    machine: dict[str, Any]
    record_of: dict[int, Record]
    cycle: int
    submitted: int

    def _submit(self, record: Record) -> None: ...


class Plan(NamedTuple):
    """Something that the PE continues with in P1 of a cycle."""

    kind: int
    cycle: int
    order: int
    what: Callable[[int], None]


class Pe:
    """One PE. `name`: of its node; empty for a single NPU."""

    def __init__(self, run: Engines, name: str, spm: Scratchpad, keys: Keys) -> None:
        self.run, self.name, self.spm, self.keys = run, name, spm, keys
        self.open: list[Command] = []  # as they were issued
        self.places = keys.queue_depth + 16  # jobs in its engines at a time
        self.inside: list[tuple[Record, Stage]] = []  # jobs in the engines
        self.backlog: list[tuple[Record, Stage]] = []  # jobs that wait for a place
        self.engine_of: dict[int, tuple[str, int]] = {}  # by id of a stage that is not over
        self.stages: list[Stage] = []  # all that have begun
        self.passed: list[tuple[str, int, int]] = []  # FETCH and STORE: name, start and end
        self.plans: list[Plan] = []
        self.count = 0
        self.passing: list[Callable[[int], None]] = []  # FETCH and STORE that take no time
        self.port_free = 0  # the cycle from which the port of FETCH and STORE is free
        self.acted = -1  # the last cycle in which it continued, or before which an end was reported to it
        self.taken: list[tuple[int, int]] = []  # (address, bytes) of what is allocated

    # Time ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.run.cycle

    def plan(self, kind: int, cycle: int, what: Callable[[int], None]) -> None:
        """Continue with `what(cycle)` in P1 of a cycle."""
        self.count += 1
        self.plans.append(Plan(kind, cycle, self.count, what))

    def report(self, cycle: int) -> None:
        """P7 of the cycle before: the jobs that end are reported in the order of their submission."""
        ended = [(record, stage) for record, stage in self.inside if record.end == cycle]
        for record, stage in sorted(ended, key=lambda pair: pair[0].entry["order"]):
            self.inside.remove((record, stage))
            self.acted = cycle
            self._give()
            if all(other is not stage for _, other in self.inside + self.backlog):
                del self.engine_of[id(stage)]
                stage.over(cycle)
                self.pass_on()

    def wake(self, cycle: int) -> None:
        """P1 of a cycle, before the kernel: commands, then tiles, then messages."""
        for kind in (COMMAND, TILE, MESSAGE):
            while due := [plan for plan in self.plans if plan.kind == kind and plan.cycle <= cycle]:
                first = min(due, key=lambda plan: (plan.cycle, plan.order))
                self.plans.remove(first)
                self.acted = cycle
                first.what(cycle)
                self.pass_on()

    # Commands -----------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether the kernel can issue another command."""
        return len(self.open) < self.keys.queue_depth

    def issue(self, command: Command, begin: Callable[[int], None]) -> None:
        """A command of the kernel, whose jobs begin after the cycles of the scheduler."""
        self.open.append(command)
        if self.keys.cycles:
            self.plan(COMMAND, self.now + self.keys.cycles, begin)
        else:
            begin(self.now)
            self.pass_on()

    def end(self, command: Command) -> None:
        """The end of a command is reported."""
        self.open.remove(command)
        command.is_over = True
        command.uses = ()

    def serve(self, stage: Stage, engine: tuple[str, int]) -> None:
        """Hand the jobs of a stage to an engine. A message is counted by the engine ("comm", i), and moved by ("dma", i)."""
        kind, number = engine
        self.stages.append(stage)
        self.engine_of[id(stage)] = engine
        for record in stage.records:
            record.entry |= {f"{'dma' if kind == 'comm' else kind}_id": number}
            if self.name:
                record.entry["node"] = self.name
            self.run.record_of[id(record.entry)] = record
            self.backlog.append((record, stage))
        self._give()

    def _give(self) -> None:
        """Jobs go to their engines, as far as there are places."""
        while self.backlog and len(self.inside) < self.places:
            record, stage = self.backlog.pop(0)
            record.entry["order"] = self.run.submitted
            self.run._submit(record)
            self.inside.append((record, stage))

    def fewest(self, kind: str) -> tuple[str, int]:
        """The engine of a kind with the fewest commands; a stage counts until it is over."""
        engines = self.run.machine["dma" if kind == "comm" else kind]["engines"]
        busy = list(self.engine_of.values())
        return kind, min(range(engines), key=lambda engine: (busy.count((kind, engine)), engine))

    @property
    def log(self) -> list[tuple[str, str, int, int]]:
        """PE, name, start and end of every stage that has ended."""
        found = [(self.name, *passed) for passed in self.passed]
        for stage in self.stages:
            if all(record.end is not None for record in stage.records):
                starts, ends = ([getattr(record, at) for record in stage.records] for at in ("start", "end"))
                found += [(pe or self.name, name, min(starts), max(ends)) for pe, name in stage.entries]
        return found

    def fetch_or_store(self, name: str, nbytes: int, over: Callable[[int], None]) -> None:
        """A tile of a composite op passes between the scratchpad and an engine. Without any time, it is over at once: after
        what begins at the same time."""
        rate, start = self.keys.fetch_rate, self.now
        end = start
        if rate is not None:
            start = max(start, self.port_free)
            end = self.port_free = start + ceil(nbytes / rate)
        end += self.keys.fetch_cycles
        self.passed.append((name, start, end))
        if end == self.now:
            self.passing.append(over)
        else:
            self.plan(TILE, end, over)

    def pass_on(self) -> None:
        """FETCH and STORE without any time are over."""
        while self.passing:
            self.passing.pop(0)(self.now)

    # Jobs ---------------------------------------------------------------------------------------------------------

    def at(self, name: str, address: int) -> dict[str, int]:
        """The fields of an entry for an address in the scratchpad."""
        spm = self.spm
        if not spm.interleaved:
            return {f"{name}_bank": address // spm.size, f"{name}_offset": address % spm.size}
        line, rest = divmod(address, spm.width)
        return {f"{name}_bank": line % spm.banks, f"{name}_offset": line // spm.banks * spm.width + rest}

    def transfers(
        self, opcode: str, tensor: int, tile: Rows, place: int, channel: str = "act_weight"
    ) -> list[dict[str, Any]]:
        """A tile between memories and scratchpad, divided at the ends of slices."""
        first = tensor + tile.offset
        fits = [self._in_one_slice(first, first + i * tile.stride + tile.row_bytes - 1) for i in range(tile.rows)]
        if all(fits):
            return [self.transfer(opcode, tensor, tile, place, channel)]
        inside = fits.index(False)
        parts = [tile._replace(rows=inside)] if inside else self._halves(tensor, tile._replace(rows=1))
        done = max(1, inside)
        if done < tile.rows:
            parts.append(tile._replace(offset=tile.offset + done * tile.stride, rows=tile.rows - done))
        jobs = []
        for part in parts:
            jobs += self.transfers(opcode, tensor, part, place, channel)
            place += part.nbytes
        return jobs

    def _in_one_slice(self, first: int, last: int) -> bool:
        return self.run.memory_of(first) == self.run.memory_of(last)

    def _halves(self, tensor: int, row: Rows) -> list[Rows]:
        """A row that crosses the end of a slice, before and behind it."""
        first = tensor + row.offset
        before = next(n for n in range(1, row.row_bytes) if not self._in_one_slice(first, first + n))
        return [row._replace(row_bytes=before), row._replace(offset=row.offset + before, row_bytes=row.row_bytes - before)]

    def transfer(self, opcode: str, tensor: int, tile: Rows, place: int, channel: str = "act_weight") -> dict[str, Any]:
        """A tile between a memory and scratchpad. Its aligned bytes end inside the scratchpad."""
        rows = [(tensor + tile.offset + i * tile.stride, tile.row_bytes) for i in range(tile.rows)]
        travel = sum(nbytes for _, nbytes in aligned_rows(rows, self.run.machine["dma"]["alignment_bytes"]))
        moved = {"num_elements": tile.nbytes}
        if tile.rows > 1:
            moved = {"rows": tile.rows, "row_elements": tile.row_bytes, "stride_bytes": tile.stride}
        entry = {"opcode": opcode, "tensor_role": "weight", "qbits": 8, "dram_addr": rows[0][0], "channel": channel, **moved}
        return entry | self.at("spm", min(place, self.size - travel))

    def product(self, size: Sequence[int], bits: Sequence[int], a: int, b: int, result: int | None) -> dict[str, Any]:
        """A product of tiles at addresses; without `result`, its sum stays in the accumulators."""
        (m, n, k), (of_a, of_b, of_result) = size, bits
        job = {"opcode": "TE_GEMM_TILE", "m": m, "n": n, "k": k, "qbits_activation": of_a, "qbits_weight": of_b}
        job |= {"qbits_result": of_result} | self.at("ifm", a) | self.at("wgt", b)
        return job | ({"partial": True} if result is None else self.at("ofm", result))

    def vector(
        self, name: str, size: Sequence[int], bits: Sequence[int], operands: Sequence[tuple[int, int]], result: int
    ) -> dict[str, Any]:
        """An op on `size[0]` rows of `size[1]` elements. `bits`: of the first operand and of the result; `operands`: addresses
        and bytes."""
        job = {"opcode": f"VE_{name.upper()}_TILE", "batch": size[0], "length": size[1]}
        job |= {"qbits": bits[0], "qbits_activation": bits[0], "qbits_result": bits[1]}
        for region, (place, nbytes) in zip(("in", "in2"), operands, strict=False):
            job |= self.at(region, place) | {f"{region}_bytes": nbytes}
        return job | self.at("out", result)

    # The scratchpad -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self.spm.banks * self.spm.size

    def _gaps(self) -> list[tuple[int, int]]:
        begin, found = 0, []
        for address, nbytes in sorted([*self.taken, (self.size, 0)]):
            found.append((begin, address - begin))
            begin = ceil_div(address + nbytes, self.spm.width) * self.spm.width
        return [gap for gap in found if gap[1] > 0]

    def find(self, nbytes: int) -> int | None:
        """The address of the first gap that is large enough."""
        whole = ceil_div(nbytes, self.spm.width) * self.spm.width
        return next((begin for begin, room in self._gaps() if room >= whole), None)

    def allocate(self, nbytes: int) -> int:
        """Take bytes of the first gap that is large enough."""
        address = self.find(nbytes)
        assert address is not None
        self.taken.append((address, nbytes))
        return address

    def release(self, address: int) -> None:
        self.taken = [one for one in self.taken if one[0] != address]

    @property
    def largest(self) -> int:
        """[B] The size of the largest gap."""
        return max((room for _, room in self._gaps()), default=0)
