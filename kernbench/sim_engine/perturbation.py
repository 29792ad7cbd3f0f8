"""Perturbed runs (docs/model/perturbed_runs.md): the draws, and the core's tables with these draws.

A draw is a function of the seed, the kind, a name and an ordinal, and does not depend on other draws. Machines that are made
inside `perturbed(...)` run with these draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kernbench.common import naming
from kernbench.config.schema import ARBITERS

if TYPE_CHECKING:
    from kernbench.cmdq.plan import Plan
    from kernbench.cmdq.program import Program

#: Kinds: append, never rename, because findings are saved with them.
LATENCY, START, TIES, CAPACITY, CREDITS, STORES = "latency", "start", "ties", "capacity", "credits", "stores"
KINDS = (LATENCY, START, TIES, CAPACITY, CREDITS, STORES)
Array = NDArray[Any]
Key = tuple[str, str, int]  #: kind, name, ordinal of a draw
STEPS = 8  #: factors of a capacity between 1 and the slowest
ORDERS = 1 << 31  #: number of orders of a set of ties; 0 is the order without draws
_CHANNELS = 4  # number of channels of a DMA engine, with COMM
_COMM = 3  # the channel of queues between PEs
_LIMIT = 1 << 31  # limit of numerators and denominators
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Ranges(msgspec.Struct, frozen=True):
    """The draws that may vary, and their ranges."""

    latency: int = 1024  #: [cycle] head latency grows by at most this
    start: int = 4096  #: [cycle] largest delay of the start of a PE
    slowest: Fraction = Fraction(1, 4)  #: the smallest share of its capacity that a link or DRAM channel may have
    kinds: tuple[str, ...] = KINDS  #: the kinds that are drawn


USUAL = Ranges()


def mixed(value: Array) -> Array:
    """The finalizer of splitmix64: 64 bits, each of which depends on every bit of the input."""
    value = np.asarray(value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(value ^ (value >> np.uint64(31)))


def seed_of(*parts: object) -> int:
    """A 64-bit seed from these parts."""
    import hashlib  # imported here, because a run without draws does not need it

    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


class Draws:
    """The delays and orders of one run. `used` has those that are not 0."""

    def __init__(self) -> None:
        self.used: dict[Key, int] = {}
        self.jobs: Mapping[str, int] = {}  #: transfers that kernels submitted to each queue of a PE, of the run without draws

    def values(self, kind: str, name: str, count: int, most: int) -> list[int]:
        """The draws with the ordinals 0 to `count` - 1, each from 0 to `most`."""
        raise NotImplementedError

    def value(self, kind: str, name: str, ordinal: int, most: int) -> int:
        """One draw from 0 to `most`."""
        raise NotImplementedError


class NoDraws(Draws):
    """The run with which others are compared."""

    def values(self, kind: str, name: str, count: int, most: int) -> list[int]:
        return [0] * count

    def value(self, kind: str, name: str, ordinal: int, most: int) -> int:
        return 0


class SeededDraws(Draws):
    """The draws of a seed. The seed also decides, by kind, which names have draws at all, how many of these are not 0, and how
    large they may be: runs with few long delays find other races than runs with many short ones.
    """

    def __init__(self, seed: int, ranges: Ranges = USUAL, focus: str = "") -> None:
        """`focus`: a PE whose loads and stores, and no other draws, are not 0; empty for all draws."""
        super().__init__()
        self.seed, self.ranges, self.focus = seed, ranges, focus
        self._forms: dict[str, tuple[int, int, int]] = {}

    def values(self, kind: str, name: str, count: int, most: int) -> list[int]:
        drawn = self._drawn(kind, name, np.arange(count, dtype=np.uint64), most)
        for ordinal in np.flatnonzero(drawn).tolist():
            self.used[kind, name, ordinal] = int(drawn[ordinal])
        found: list[int] = drawn.tolist()
        return found

    def value(self, kind: str, name: str, ordinal: int, most: int) -> int:
        drawn = int(self._drawn(kind, name, np.array([ordinal], dtype=np.uint64), most)[0])
        if drawn:
            self.used[kind, name, ordinal] = drawn
        return drawn

    def _in_focus(self, kind: str, name: str) -> bool:
        if kind == STORES:
            return name == self.focus
        return kind == LATENCY and name.startswith(f"{self.focus} ") and not name.endswith(f" {_COMM}")

    def _drawn(self, kind: str, name: str, ordinals: Array, most: int) -> Array:
        if kind not in self.ranges.kinds or most <= 0:
            return np.zeros(len(ordinals), np.int64)
        if kind not in self._forms:
            form = seed_of(self.seed, kind)
            shift = (0, 0, 3, 6)[form >> 2 & 3] if kind in (LATENCY, START) else 0
            self._forms[kind] = (1, 2, 8, 32)[form & 3], shift, (1, 1, 1, 4)[form >> 4 & 3]
        every, shift, names = self._forms[kind]
        base = seed_of(self.seed, kind, name)
        if self.focus and kind in (LATENCY, STORES):
            every, shift, names = 1, 0, 1
        if (base >> 8) % names or (self.focus and not self._in_focus(kind, name)):
            return np.zeros(len(ordinals), np.int64)
        with np.errstate(over="ignore"):
            bits = mixed(np.uint64(base) + (ordinals + np.uint64(1)) * _GOLDEN)
        sizes = (bits >> np.uint64(16)) % np.uint64(max(1, most >> shift)) + np.uint64(1)
        return np.where((bits & np.uint64(0xFFFF)) % np.uint64(every) == 0, sizes, np.uint64(0)).astype(np.int64)


class ListedDraws(Draws):
    """Given draws, and 0 for all others: of a saved finding, or of one that is being shrunk."""

    def __init__(self, given: Mapping[Key, int]) -> None:
        super().__init__()
        self.given = given

    def values(self, kind: str, name: str, count: int, most: int) -> list[int]:
        found = [0] * count
        for own, where, ordinal in self.given:
            if own == kind and where == name and ordinal < count:
                found[ordinal] = self.value(kind, name, ordinal, most)
        return found

    def value(self, kind: str, name: str, ordinal: int, most: int) -> int:
        drawn = min(self.given.get((kind, name, ordinal), 0), most)
        if drawn:
            self.used[kind, name, ordinal] = drawn
        return drawn


class Perturbed(msgspec.Struct):
    """A run with draws, while it is made and afterwards."""

    draws: Draws
    ranges: Ranges = msgspec.field(default_factory=Ranges)
    machine: Any = None  #: the `Machine` that ran
    accesses: list[Any] = []  #: accesses of kernels to memories, in the order of their effects
    installed: int = 0  #: sets of queues so far


_CURRENT: ContextVar[Perturbed | None] = ContextVar("kernbench_perturbed", default=None)


def current() -> Perturbed | None:
    """The perturbed run whose machine is being made; None outside of such a run."""
    return _CURRENT.get()


@contextmanager
def perturbed(run: Perturbed) -> Iterator[Perturbed]:
    """Machines that are made inside run with the draws of `run`."""
    token = _CURRENT.set(run)
    try:
        yield run
    finally:
        _CURRENT.reset(token)


def pe_of(plan: Plan, number: int) -> str:
    """The PE of a scratchpad; nodes without banks, such as PCIe endpoints, have a number."""
    if number >= len(plan.scratchpads):
        return f"endpoint{number - len(plan.scratchpads)}"
    return naming.parent(plan.scratchpads[number]) or plan.pe.pe_names[0]


def perturbed_plan(plan: Plan, program: Program, run: Perturbed, *, kernels: bool) -> Plan:
    """The plan with the tables of the draws. `kernels`: components submit the jobs, and there is no command queue."""
    machine, capacities = _slowed(plan, run)
    queues = len(machine["spm"]) * _CHANNELS
    delays = _delays(plan, run, queues) if kernels else [[] for _ in range(queues)]
    latency = np.zeros(len(plan.program["dma"]["entry"]), np.int64)
    ready = np.zeros(len(machine["spm"]), np.int64)
    issue = None
    if not kernels:
        for k, position in enumerate(plan.program["dma"]["entry"].tolist()):
            latency[k] = run.draws.value(LATENCY, "entry", program.entries[position].id, run.ranges.latency)
        for k in range(len(plan.scratchpads)):  # PCIe endpoints, which come after the PEs, do not start later
            ready[k] = run.draws.value(START, pe_of(plan, k), 0, run.ranges.start)
        issue = _issue_ranks(plan, program, run)
    table = {
        "latency": latency,
        "ready": ready,
        "grant": np.array(_grant_keys(plan, run), np.int64),
        "first": np.cumsum([0, *map(len, delays)]),
        "delay": np.array([one for queue in delays for one in queue], np.int64),
        "issue": issue,
    }
    engines = [spec | {"ties": _start_order(plan, run, k)} for k, spec in enumerate(machine["dma"])]
    return msgspec.structs.replace(plan, machine=machine | {"perturbed": table, "dma": engines}, capacities=capacities)


def needs_plain_walk(plan: Plan) -> bool:
    """Fast paths support only the P2 order by position."""
    table = plan.machine.get("perturbed")
    return table is not None and table["issue"] is not None


def _delays(plan: Plan, run: Perturbed, queues: int) -> list[list[int]]:
    """The additional head latencies of the transfers of kernels, by PE and channel."""
    found = []
    for queue in range(queues):
        name = f"{pe_of(plan, queue // _CHANNELS)} {queue % _CHANNELS}"
        found.append(run.draws.values(LATENCY, name, run.draws.jobs.get(name, 0), run.ranges.latency))
    return found


def _slowed(plan: Plan, run: Perturbed) -> tuple[dict[str, Any], tuple[Fraction, ...]]:
    """The machine with the drawn capacities of links and DRAM channels. Channels with DRAM timing keep that of their bus."""
    timed = plan.machine.get("devices") is not None or plan.machine.get("controllers") is not None
    num, den = plan.machine["resource_num"].copy(), plan.machine["resource_den"].copy()
    capacities = list(plan.capacities)
    for k in range(plan.channels if timed else 0, plan.links.stop):
        step = run.draws.value(CAPACITY, plan.resources[k], 0, STEPS)
        share = capacities[k] * (1 - (1 - run.ranges.slowest) * Fraction(step, STEPS))
        if step and share > 0 and share.numerator < _LIMIT and share.denominator < _LIMIT:
            capacities[k] = share
            num[k], den[k] = share.numerator, share.denominator
    machine = {**plan.machine, "resource_num": num, "resource_den": den}
    if "network" in machine:
        from kernbench.noc.machine import with_capacities  # imported here, because few machines have routers

        machine["network"] = with_capacities(machine["network"], capacities)
    return machine, tuple(capacities)


def _grant_keys(plan: Plan, run: Perturbed) -> list[int]:
    """P5: the positions of engines in the tie-break order. The engines of a PE exchange their positions."""
    keys = [*range(len(plan.machine["dma"]))]
    keys += [(int(spec["kind"]) << 32) | int(spec["id"]) for spec in plan.machine["compute"]]
    owners = [int(spec["spm"]) for spec in (*plan.machine["dma"], *plan.machine["compute"])]
    by_ties = {number for number, arbiter in enumerate(ARBITERS.values()) if arbiter.ties}
    for k, spm in enumerate(plan.machine["spm"]):
        mine = [i for i, owner in enumerate(owners) if owner == k]
        if len(mine) < 2 or spm.get("arbiter", 0) not in by_ties:
            continue
        drawn = run.draws.value(TIES, f"{pe_of(plan, k)} grant", 0, ORDERS)
        if drawn:
            places = np.random.default_rng(drawn).permutation(len(mine)).tolist()
            there = [keys[i] for i in mine]
            for i, place in zip(mine, places, strict=True):
                keys[i] = there[place]
    return keys


def _start_order(plan: Plan, run: Perturbed, engine: int) -> list[int]:
    """P3: the order of channels with equal scores."""
    orders = list(permutations(range(_CHANNELS - 1)))
    drawn = run.draws.value(TIES, f"{plan.dma[engine]} start", 0, len(orders))
    return [*orders[drawn - 1], 0] if drawn else [0] * _CHANNELS


def _issue_ranks(plan: Plan, program: Program, run: Perturbed) -> Array | None:
    """P2, if the issue width is limited: the order of entries that are ready at the same time. Barriers keep their positions,
    and the entries of one queue keep their order.
    """
    if not plan.machine["issue_width"] or not len(program.entries):
        return None
    drawn = run.draws.value(TIES, "issue", 0, ORDERS)
    if not drawn:
        return None
    random, ranks = np.random.default_rng(drawn), np.arange(len(program.entries), dtype=np.int64)
    queue_of = _queues(plan)
    segment: list[int] = []
    for entry in [*program.entries, None]:
        if entry is not None and entry.opcode != "BARRIER":
            segment.append(entry.index)
            continue
        places = random.permutation(segment).tolist()
        by_queue: dict[Any, list[int]] = {}
        for position, place in zip(segment, places, strict=True):
            by_queue.setdefault(queue_of.get(position, ("control", position)), []).append(place)
        for places in by_queue.values():
            places.sort(reverse=True)
        for position in segment:
            ranks[position] = by_queue[queue_of.get(position, ("control", position))].pop()
        segment = []
    return ranks


def _queues(plan: Plan) -> dict[int, Any]:
    """The queue of each job, by its position."""
    moves, work = plan.program["dma"], plan.program["compute"]
    found: dict[int, Any] = {}
    for name, table, columns in (("dma", moves, ("engine", "channel")), ("compute", work, ("engine",))):
        for position, *queue in zip(table["entry"].tolist(), *(table[one].tolist() for one in columns), strict=True):
            found[position] = (name, *queue)
    return found


def submitted_jobs(plan: Plan, counts: Sequence[int]) -> dict[str, int]:
    """`Draws.jobs` after a run."""
    return {f"{pe_of(plan, k // _CHANNELS)} {k % _CHANNELS}": n for k, n in enumerate(counts) if n}
