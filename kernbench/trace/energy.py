"""The energy of a traced run by cause: the command, the resource, and the kind of access.

Every access of a file of level `full` or `access` is priced by the machine's `energy` section, as in `kernbench.bounds.energy`:

    dram    bytes of each flow on a DRAM channel
    noc     bytes of each flow on each link that it crosses
    spm     bytes of each transfer of a DMA engine at its scratchpad, and of each operand range of a TE or VE job
    mac     MACs of each TE job, at the price of the bits of its weights
    ve      operations of each VE job
    static  the static power over the whole run; it has no command

Energies are integers over one denominator, so their sums do not depend on the order and the groups of addition.
"""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.naming import is_link
from kernbench.common.spelling import meant
from kernbench.common.units import parse_rational
from kernbench.config.schema import EnergyModel
from kernbench.trace.events import Record
from kernbench.trace.exporters.csv import DANGEROUS
from kernbench.trace.reader import Trace

PARTS = ("dram", "noc", "spm", "mac", "ve", "static")
READ, WRITE, MAC, OP, TIME = "read", "write", "mac", "op", "time"
ACTIONS = (READ, WRITE, MAC, OP, TIME)
OTHER = "not of a command"  #: static energy, write-backs of a cache, transfers that had not ended
UNSTATED = "not stated"  #: commands that do not state the property by which they are grouped
NO_COMPONENT = "no component"  #: accesses that no component of the chip has, and all accesses without components
WHOLE_RUN = "run"  #: the resource of static energy
NEARLY = 1e-9  #: relative difference of an exact sum from the same as a float, at most
_BITS = re.compile(r"W(\d+)", re.IGNORECASE)

#: The fields that are read from a trace, by event type.
_FIELDS: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": (
        "cmd_id", "cmd_type", "unit", "layer_id", "phase", "block_id", "head_id", "token_idx", "precision", "tensor", "qbits",
        "tenant_id",
    ),
    "DMA_START": ("cmd_id", "job_id", "unit", "direction", "size_bytes", "src_addr", "dst_addr"),
    "DMA_END": ("job_id",),
    "TE_END": ("cmd_id", "job_id", "unit", "mac_count"),
    "VE_END": ("cmd_id", "job_id", "unit", "op_count"),
    "SRAM_ACCESS": ("cmd_id", "job_id", "unit", "addr", "size_bytes", "access_type", "by"),
    "DRAM_TX_END": ("cmd_id", "job_id", "unit", "size_bytes"),
    "NOC_TX_START": ("cmd_id", "job_id", "channel", "unit", "size_bytes"),
    "NOC_TX_END": ("job_id", "channel", "unit"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prices:
    """The energy of an event, in `1 / unit` picojoules: exact integers."""

    unit: int
    dram: int  #: one byte
    noc: int  #: one byte on one link
    spm: int  #: one byte
    mac: dict[int, int]  #: one MAC, by bits of the weights
    ve: int  #: one operation
    static: int  #: one cycle

    @classmethod
    def of(cls, section: dict[str, Any], freq_ghz: Fraction) -> Prices:
        """The prices of an `energy` section; missing prices have their defaults."""
        usual = EnergyModel()

        def rate(name: str) -> Fraction:
            return parse_rational(section[name]) if name in section else Fraction(getattr(usual, name))

        given = section.get("mac_pj", usual.mac_pj)
        mac = {int(bits): parse_rational(pj) if not isinstance(pj, Fraction) else pj for bits, pj in given.items()}
        names = ("dram_pj_per_byte", "noc_pj_per_byte_hop", "spm_pj_per_byte", "ve_op_pj")
        rates = [*map(rate, names), rate("static_mw") / freq_ghz]
        unit = lcm(*(one.denominator for one in [*rates, *mac.values()]))
        dram, noc, spm, ve, static = (int(one * unit) for one in rates)
        return cls(unit, dram, noc, spm, {bits: int(pj * unit) for bits, pj in mac.items()}, ve, static)

    def of_mac(self, bits: int) -> int:
        """The price of a MAC; bits that the table lacks cost what 8 bits cost."""
        return self.mac.get(bits, self.mac.get(8, 0))

    @property
    def differ(self) -> bool:
        """Whether MACs of different bits have different prices."""
        return len({*self.mac.values(), self.of_mac(8)}) > 1


@dataclass(frozen=True, slots=True)
class Cause:
    """The properties that a command states."""

    op: str  #: its opcode
    layer: int | None = None
    phase: str | None = None
    block: int | None = None
    head: int | None = None
    token: int | None = None
    tensor: str | None = None
    tenant: int | None = None
    bits: int = 8  #: of the weights of a TE command


@dataclass(frozen=True, slots=True)
class Item:
    """The accesses of one kind by one command on one resource."""

    part: str
    resource: str
    action: str
    cmd_id: int | None
    count: int  #: bytes, MACs, operations or cycles
    energy: int  #: in `1 / unit` pJ
    place: int = 0  #: of scratchpad accesses: the number of bounds up to the address of the first byte
    component: str | None = None  #: of the chip; only in a ledger with the prices of components
    at: tuple[int, str] = (-1, "")  #: cycle and event type of the access; only in a ledger made with `each`


@dataclass(frozen=True, slots=True)
class Share:
    """A group of a grouping."""

    name: str
    pj: Fraction
    parts: dict[str, Fraction]  #: pJ by part, without those of 0


class Ledger:
    """The energy of one run, item by item."""

    def __init__(self, trace: Trace, items: list[Item], causes: dict[int, Cause], prices: Prices, cycles: int) -> None:
        self.trace, self.items, self.causes, self.prices, self.cycles = trace, items, causes, prices, cycles

    @property
    def total(self) -> Fraction:
        """[pJ]"""
        return Fraction(sum(item.energy for item in self.items), self.prices.unit)

    @property
    def ns(self) -> Fraction:
        """[ns] The duration of the run."""
        return self.cycles / self.trace.freq_ghz

    def by(self, grouping: str) -> list[Share]:
        """The groups, largest first. Their sum is `total`, exactly. InputError for an unknown grouping."""
        name_of = GROUPINGS.get(grouping)
        if name_of is None:
            raise InputError(_unknown(grouping))
        found: dict[str, Counter[str]] = {}
        for item in self.items:
            found.setdefault(name_of(self, item), Counter())[item.part] += item.energy
        unit = self.prices.unit
        shares = [
            Share(name, Fraction(sum(parts.values()), unit), {p: Fraction(parts[p], unit) for p in PARTS if parts[p]})
            for name, parts in found.items()
        ]
        return sorted(shares, key=lambda share: (-share.pj, share.name))

    def counts(self) -> dict[tuple[str, str], int]:
        """Bytes, MACs, operations and cycles by resource and action."""
        found: Counter[tuple[str, str]] = Counter()
        for item in self.items:
            found[item.resource, item.action] += item.count
        return dict(found)

    def action_counts(self) -> list[tuple[str, str, int | None, int]]:
        """Bytes, MACs, operations and cycles by part and action; of links, bytes in both directions together. MACs also by the
        bits of their weights, as far as prices differ."""
        found: Counter[tuple[str, str, int]] = Counter()
        for item in self.items:
            cause = self.cause(item)
            bits = 8 if cause is None or cause.bits not in self.prices.mac else cause.bits
            action = READ if item.part == "noc" else item.action
            found[item.part, action, bits if item.part == "mac" else 0] += item.count
        rows = sorted(found.items(), key=lambda one: _order(one[0]))
        return [(part, action, bits or None, count) for (part, action, bits), count in rows]

    def cause(self, item: Item) -> Cause | None:
        """What its command states; None of an item without a command."""
        return None if item.cmd_id is None else self.causes.get(item.cmd_id)


def _stated(name: str) -> Callable[[Ledger, Item], str]:
    def of(ledger: Ledger, item: Item) -> str:
        cause = ledger.cause(item)
        if cause is None:
            return OTHER
        value = getattr(cause, name)
        return UNSTATED if value is None else str(value)

    return of


def _command(ledger: Ledger, item: Item) -> str:
    cause = ledger.cause(item)
    return OTHER if cause is None else f"{item.cmd_id} {cause.op}"


def _node(ledger: Ledger, item: Item) -> str:
    """A node of a graph or a phase of a layer: programs of graphs number their nodes as layers, with the operator as phase."""
    cause = ledger.cause(item)
    if cause is None:
        return OTHER
    return " ".join(str(one) for one in (cause.layer, cause.phase) if one is not None) or UNSTATED


#: By name, the group of an item.
GROUPINGS: dict[str, Callable[[Ledger, Item], str]] = {
    "part": lambda _, item: item.part,
    "resource": lambda _, item: item.resource,
    "action": lambda _, item: f"{item.part} {item.action}",
    "layer": _stated("layer"),
    "phase": _stated("phase"),
    "block": _stated("block"),
    "head": _stated("head"),
    "token": _stated("token"),
    "tenant": _stated("tenant"),
    "op": _stated("op"),
    "tensor": _stated("tensor"),
    "node": _node,
    "command": _command,
    "component": lambda _, item: item.component or NO_COMPONENT,
}


def _order(key: tuple[str, str, int]) -> tuple[int, str, int]:
    return PARTS.index(key[0]), *key[1:]


def check_groupings(names: list[str]) -> None:
    """InputError for an unknown grouping."""
    for name in names:
        if name not in GROUPINGS:
            raise InputError(_unknown(name))


def _unknown(grouping: str) -> Problem:
    rule = f"it must be one of {', '.join(GROUPINGS)}"
    return Problem("kbsim trace energy", rule, "--by", grouping, meant(grouping, GROUPINGS))


def ledger(trace: Trace, bounds: Sequence[int] = (), *, each: bool = False) -> Ledger:
    """Price every access of a trace. InputError for a file that does not contain all accesses of a whole run.

    `bounds`: ascending scratchpad addresses, by which `Item.place` divides the accesses of a scratchpad. `each`: items of
    single events, with their cycles; events of one type and command in one cycle, on one resource, are one item.
    """
    _check(trace)
    section = trace.meta.sim_config.get("energy", {})
    try:
        prices = Prices.of(section, trace.freq_ghz)
    except (ValueError, TypeError, AttributeError) as error:
        rule = f"its machine has a wrong energy section: {error}"
        raise InputError(Problem(f"{trace.path}:1", rule, "energy", section)) from None
    sums = _Sums(trace, prices, bounds, each=each)
    for batch in trace.batches({name: ("t_cycle", *fields) for name, fields in _FIELDS.items()} if each else _FIELDS):
        for record in batch:
            handle = sums.handlers.get(record.event.name)
            if handle is not None:
                handle(record)
    if trace.broken is not None or trace.end is None:
        remedy = "only the trace of a whole run has its energy by cause"
        raise InputError(Problem(trace.path, f"the trace breaks off: {trace.broken}", remedy=remedy))
    found = Ledger(trace, list(sums.items(trace.end)), sums.causes, prices, trace.end.cycles)
    _compare(found, trace.end.energy_pj or {})
    return found


def _compare(found: Ledger, said: dict[str, Any]) -> None:
    """Compare the sum of the accesses with the energy that the run itself reported. InputError if they differ: the bits of the
    MACs are not stated, or the run stopped while accesses were under way."""
    parts = {share.name: share.pj for share in found.by("part")}
    for part in PARTS:
        pj = float(parts.get(part, 0))
        if part in said and abs(pj - said[part]) > NEARLY * max(abs(pj), abs(said[part])):
            rule = f"its accesses add up to {pj:g} pJ of {part}, but the run reported {said[part]:g} pJ"
            remedy = ""
            if found.trace.end is not None and found.trace.end.status != "done":
                rule += "; the run stopped while accesses were under way, and the trace does not contain these"
            elif part == "mac" and found.prices.differ:
                remedy = "MACs of different bits have different prices: record the trace with --set energy.by_cause=true"
            raise InputError(Problem(found.trace.path, rule, f"energy_pj.{part}", said[part], remedy=remedy))


def _check(trace: Trace) -> None:
    if trace.meta.level not in ("full", "access"):
        rule = f"the trace is one of level {trace.meta.level}, which does not have the accesses"
        raise InputError(Problem(trace.path, rule, remedy="record it with --trace-level full"))
    if trace.meta.filter:
        rule = "the trace leaves some units or cycles out"
        raise InputError(Problem(trace.path, rule, remedy="record it without --trace-cycles and --trace-only"))


class _Sums:
    """Counts of accesses by part, resource, action and command, and also by event if `each`."""

    def __init__(self, trace: Trace, prices: Prices, bounds: Sequence[int], *, each: bool) -> None:
        self.prices, self.path, self.bounds, self.each = prices, trace.path, bounds, each
        self.causes: dict[int, Cause] = {}
        self.counts: Counter[tuple[str, str, str, int, int, tuple[int, str]]] = Counter()
        tracks = {str(unit.get("unit")): unit for unit in trace.meta.units}
        places = {unit.get("parent"): name for name, unit in tracks.items() if unit.get("component") == "SRAM"}
        #: By DMA engine, its own scratchpad; engines without one have no bytes there.
        self.scratchpad = {
            name: places[unit.get("parent")]
            for name, unit in tracks.items()
            if unit.get("component") == "DMA" and unit.get("parent") in places
        }
        of_part = {n: str(u.get("component")) for n, u in tracks.items() if is_link(n)}
        self.units = {part: [n for n, kind in of_part.items() if kind == c] for part, c in _COMPONENTS.items()}
        self.transfers: dict[int, Record] = {}
        self.directions: dict[int, str] = {}
        self.crossings: dict[tuple[int, int, str], Record] = {}
        #: Of jobs that run: bytes by scratchpad, direction, place and event.
        self.operands: dict[int, Counter[tuple[str, str, int, tuple[int, str]]]] = {}
        self.handlers: dict[str, Callable[[Any], None]] = {name: getattr(self, name.lower()) for name in _FIELDS}

    def cmd_enqueue(self, record: Any) -> None:
        self.causes[record.cmd_id] = Cause(
            record.cmd_type, record.layer_id, record.phase, record.block_id, record.head_id, record.token_idx,
            record.tensor, record.tenant_id, self._bits(record),
        )  # fmt: skip

    def _bits(self, record: Any) -> int:
        """Bits of the weights of a TE command. InputError if its price depends on them and the trace does not state them."""
        if record.qbits is not None:
            return int(record.qbits)
        stated = _BITS.match(record.precision or "")
        return int(stated[1]) if stated else 8

    def dma_start(self, record: Any) -> None:
        self.transfers[record.job_id] = record
        self.directions[record.job_id] = READ if record.direction == "DRAM_TO_SRAM" else WRITE

    def dma_end(self, record: Any) -> None:
        began = self.transfers.pop(record.job_id, None)
        if began is not None and began.unit in self.scratchpad:
            loads = began.direction == "DRAM_TO_SRAM"
            place = bisect_right(self.bounds, began.dst_addr if loads else began.src_addr)
            action = WRITE if loads else READ
            self.counts["spm", self.scratchpad[began.unit], action, began.cmd_id, place, self._at(record)] += began.size_bytes

    def _at(self, record: Any) -> tuple[int, str]:
        return (record.t_cycle, record.event.name) if self.each else (-1, "")

    def te_end(self, record: Any) -> None:
        self.counts["mac", record.unit, MAC, record.cmd_id, 0, self._at(record)] += record.mac_count
        self._operands(record)

    def ve_end(self, record: Any) -> None:
        self.counts["ve", record.unit, OP, record.cmd_id, 0, self._at(record)] += record.op_count
        self._operands(record)

    def _operands(self, record: Any) -> None:
        for (unit, action, place, at), count in self.operands.pop(record.job_id, {}).items():
            self.counts["spm", unit, action, record.cmd_id, place, at] += count

    def sram_access(self, record: Any) -> None:
        if record.by != "DMA":  # the bytes of a DMA engine are counted once, when its transfer ends
            kept = self.operands.setdefault(record.job_id, Counter())
            action = READ if record.access_type == "READ" else WRITE
            kept[record.unit, action, bisect_right(self.bounds, record.addr), self._at(record)] += record.size_bytes

    def dram_tx_end(self, record: Any) -> None:
        if not is_link(record.unit):  # what hits in a cache moves over no channel
            return
        action = self.directions.get(record.job_id, READ)
        self.counts["dram", record.unit, action, record.cmd_id, 0, self._at(record)] += record.size_bytes

    def noc_tx_start(self, record: Any) -> None:
        if is_link(record.unit):
            self.crossings[record.job_id, record.channel, record.unit] = record

    def noc_tx_end(self, record: Any) -> None:
        began = self.crossings.pop((record.job_id, record.channel, record.unit), None)
        if began is not None:
            action = self.directions.get(record.job_id, READ)
            self.counts["noc", record.unit, action, began.cmd_id, 0, self._at(record)] += began.size_bytes

    def items(self, end: Any) -> Iterator[Item]:
        """All items, in a fixed order; counts of the run that exceed those of commands belong to no command."""
        rates = {"dram": self.prices.dram, "noc": self.prices.noc, "spm": self.prices.spm, "ve": self.prices.ve}
        for (part, unit, action, cmd_id, place, at), count in sorted(self.counts.items()):
            price = rates[part] if part != "mac" else self.prices.of_mac(self._weights(cmd_id))
            yield Item(part, unit, action, cmd_id, count, count * price, place, at=at)
        for part, unit, count in self._rest(end.counters):
            yield Item(part, unit, WRITE, None, count, count * rates[part])
        yield Item("static", WHOLE_RUN, TIME, None, end.cycles, end.cycles * self.prices.static)

    def _weights(self, cmd_id: int) -> int:
        cause = self.causes.get(cmd_id)
        return 8 if cause is None else cause.bits

    def _rest(self, counters: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
        """Bytes of channels, links and DMA engines that belong to no event of a command."""
        told: Counter[tuple[str, str]] = Counter()
        for (part, unit, *_), count in self.counts.items():
            told[part, unit] += count
        for part in ("dram", "noc"):
            for unit in self.units[part]:
                more = counters.get(unit, {}).get("bytes", 0) - told[part, unit]
                if more:
                    yield part, unit, more


_COMPONENTS = {"dram": "DRAM", "noc": "NOC"}


def accesses_csv(found: Ledger) -> str:
    """A row for each kind of access of each command on each resource; `pj` is exact, as an integer or `p/q`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("part", "resource", "action", "cmd_id", "op", "layer", "phase", "tensor", "count", "pj", "component"))
    for item in found.items:
        cause = found.cause(item)
        stated = ("", "", "", "") if cause is None else (cause.op, cause.layer, cause.phase, cause.tensor)
        pj = Fraction(item.energy, found.prices.unit)
        cells = (item.part, item.resource, item.action, item.cmd_id, *stated, item.count, pj, item.component)
        writer.writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def events_csv(found: Ledger) -> str:
    """A row for each item of a ledger made with `each`, by cycle; energy without an event comes last, without a cycle. `pj` is
    exact, as an integer or `p/q`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("t_cycle", "event", "part", "resource", "action", "cmd_id", "op", "count", "pj", "component"))
    for item in sorted(found.items, key=lambda item: (item.at[0] < 0, item.at[0])):
        cycle, event = item.at
        cause = found.cause(item)
        pj = Fraction(item.energy, found.prices.unit)
        stated = (item.cmd_id, None if cause is None else cause.op, item.count, pj, item.component)
        cells = (None if cycle < 0 else cycle, event, item.part, item.resource, item.action, *stated)
        writer.writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: object) -> object:
    """A text that no spreadsheet interprets as a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in value)
    return f"'{text}" if text.startswith(DANGEROUS) else text


def energy_to_dict(found: Ledger, groupings: list[str], most: int | None = None) -> dict[str, Any]:
    """Plain JSON: the total, and the groups of each grouping in pJ; `exact` has the same as integers or `p/q`."""

    def group(share: Share) -> dict[str, Any]:
        parts = {part: float(pj) for part, pj in share.parts.items()}
        return {"name": share.name, "pj": float(share.pj), "exact": str(share.pj), "parts": parts}

    total = found.total
    return {
        "trace": found.trace.path,
        "cycles": found.cycles,
        "ns": float(found.ns),
        "energy_pj": float(total),
        "exact": str(total),
        "average_mw": float(total / found.ns) if found.ns else 0.0,
        "energy_delay_pj_ns": float(total * found.ns),
        "by": {grouping: [group(share) for share in found.by(grouping)[:most]] for grouping in groupings},
    }
