"""Rules between the fields of one machine, which checks of single values cannot test."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import wraps
from math import gcd
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from kernbench.common.units import plain_number
from kernbench.config.fields import QBITS, TERM_LIMIT, WIDE_LIMIT

if TYPE_CHECKING:
    from kernbench.config.mma import Mma
    from kernbench.config.schema import Control, Dma, Noc, NpuConfig, Spm, Te, Ve

P = ParamSpec("P")
T = TypeVar("T")

_ROW, _COL = 0, 1
ONE_MEMBER = ("fifo_v1", "row_buffer_v1")  #: allocation rules with at most one member flow on a DRAM channel


def dram_weight(config: NpuConfig) -> int:
    """The largest sum of weights on a DRAM channel; a transfer has one flow there."""
    if config.allocation in ONE_MEMBER:
        return max(channel.weight for channel in config.dma.channels)
    write_backs = 0 if config.llc is None else 1
    return config.dma.engines * engine_weight(config.dma, (0, 1, 2)) + write_backs


def cache_weight(config: NpuConfig) -> int:
    """The largest sum of weights at the last-level cache, and thus on a mesh link to it: each transfer has a flow on each
    channel and one that moves only over the cache, and each channel has its write-backs."""
    flows = config.dram.channels + 1
    return config.dma.engines * engine_weight(config.dma, (0, 1, 2)) * flows + config.dram.channels


def link_weight(config: NpuConfig, noc: Noc) -> int:
    """The largest sum of weights on a mesh link; a transfer has as many flows there as DRAM channels whose routes use the link.

    Some allocations have one member flow per DRAM channel.
    """
    if config.allocation in ONE_MEMBER:
        top = max(channel.weight for channel in config.dma.channels)
        return _busiest_link(noc, top, top, one_flow_a_channel=True)
    loads, stores = engine_weight(config.dma, (0, 1)), engine_weight(config.dma, (0, 2))
    return _busiest_link(noc, loads, stores, one_flow_a_channel=False)


def engine_weight(dma: Dma, channels: tuple[int, ...]) -> int:
    """The largest sum of weights of one engine's transfers on these channels, with one flow on each."""
    room = dma.max_concurrent_transfers
    total = 0
    every = tuple(dma.channels)
    for channel in sorted((every[i] for i in channels), key=lambda c: -c.weight):
        taken = min(room, channel.max_concurrent, dma.queue_depth_per_master)
        total += taken * channel.weight
        room -= taken
    return total


class _Places:
    """Positions sorted along one axis, in total and for each line: the number of positions up to a coordinate."""

    def __init__(self, places: Sequence[tuple[int, int]], axis: int, sign: int) -> None:
        self.all = sorted(sign * place[axis] for place in places)
        self.lines: dict[int, list[int]] = {}
        for place in sorted(places, key=lambda p: sign * p[axis]):
            self.lines.setdefault(place[1 - axis], []).append(sign * place[axis])

    def split(self, line: int | None, cut: int) -> tuple[int, int]:
        """(at or before the cut, after it) on one line, or on all of them."""
        coordinates = self.all if line is None else self.lines.get(line, [])
        before = bisect_right(coordinates, cut)
        return before, len(coordinates) - before


MAX_KEPT = 256  #: cached results for sections


def _kept(rule: Callable[P, T]) -> Callable[P, T]:
    """A rule whose results are cached for its arguments, because machines of a sweep share sections."""
    kept: dict[tuple[object, ...], tuple[object, T]] = {}

    @wraps(rule)
    def asked(*given: P.args, **named: P.kwargs) -> T:
        key = (id(given[0]), *given[1:], *named.values())
        known = kept.get(key)
        if known is None or known[0] is not given[0]:
            if len(kept) >= MAX_KEPT:
                kept.clear()
            known = kept[key] = given[0], rule(*given, **named)
        return known[1]

    return asked


@_kept
def _busiest_link(noc: Noc, load: int, store: int, one_flow_a_channel: bool) -> int:
    """The largest sum on a link if each pair of engine and channel has weight `load` in one direction and `store` in the other.

    A route goes first along the row of its source, and then along the column of its target. Over the row link from column x to
    x + 1 go the flows from sources in this row at or before x to targets after x in any row. Over a column link go the flows
    from sources before it in any column to targets in this column. `sign` -1 reverses both directions.
    """

    def flows(channels: int, engines: int) -> int:
        return channels * (min(engines, 1) if one_flow_a_channel else engines)

    busiest = 0
    for sign in (1, -1):
        for axis in (_ROW, _COL):
            dram, dma = _Places(noc.dram_at, axis, sign), _Places(noc.dma_at, axis, sign)
            for line in dram.lines.keys() | dma.lines.keys():
                source_line, target_line = (line, None) if axis == _COL else (None, line)
                for cut in set(dram.all) | set(dma.all):
                    loads = flows(dram.split(source_line, cut)[0], dma.split(target_line, cut)[1])
                    stores = flows(dram.split(target_line, cut)[1], dma.split(source_line, cut)[0])
                    busiest = max(busiest, loads * load + stores * store)
    return busiest


Path = tuple[str | int, ...]
MAX_HOPS = 2**22  # limit over all routes, so that a typing error does not request gigabytes of tables


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule that a machine violates, at the field that has to change."""

    path: Path
    value: Any
    rule: str
    example: str = ""  #: a value that satisfies the rule, as in a file


def broken_rules(config: NpuConfig) -> list[BrokenRule]:
    """Every rule between fields that `config` violates, in the order of the file's sections."""
    broken = [*control_rules(config.control), *engine_rules(config.spm, config.te, config.ve)]
    broken += _route_rules(config)
    if config.noc is not None:
        broken += _noc_rules(config.noc, config.dma.engines, config.dram.channels)
    if not broken:  # only now it is certain that the routes for these rules exist
        broken = _capacity_rules(config)
    return broken


def control_rules(control: Control) -> list[BrokenRule]:
    """A host writes whole commands, and no rule says when it would write the jobs of a command."""
    if control.mmio is None or control.micro_scheduler is None:
        return []
    return [BrokenRule(("control", "micro_scheduler"), None, "it is not allowed together with control.mmio")]


def engine_rules(spm: Spm, te: Te, ve: Ve) -> list[BrokenRule]:
    """The rules inside the sections that one NPU and a PE share; paths begin at these sections."""
    return _spm_rules(spm) + _te_rules(te) + _ve_rules(ve)


def _spm_rules(spm: Spm) -> list[BrokenRule]:
    broken = []
    split = (spm.read_ports, spm.write_ports)
    if spm.ports is not None and split != (None, None):
        broken.append(BrokenRule(("spm", "ports"), spm.ports, "it is not allowed together with read_ports and write_ports"))
    if spm.ports is None and None in split:
        missing = "write_ports" if spm.read_ports is not None else "read_ports"
        broken.append(
            BrokenRule(("spm",), None, f"{missing} is missing: give either ports, or both read_ports and write_ports")
        )
    if spm.bank_size_bytes % spm.bank_width_bytes:
        rule = f"it must be a multiple of bank_width_bytes ({spm.bank_width_bytes})"
        broken.append(BrokenRule(("spm", "bank_size_bytes"), spm.bank_size_bytes, rule))
    if spm.num_banks * spm.bank_width_bytes >= TERM_LIMIT:
        rule = f"times num_banks ({spm.num_banks}) it must be below 2^31: one row of banks is buffered"
        broken.append(BrokenRule(("spm", "bank_width_bytes"), spm.bank_width_bytes, rule))
    if spm.size_bytes >= WIDE_LIMIT:
        rule = f"times num_banks ({spm.num_banks}) it must be below 2^62"
        broken.append(BrokenRule(("spm", "bank_size_bytes"), spm.bank_size_bytes, rule))
    return broken


_ONLY_WITH = {
    "systolic": ("rows", "cols", "dataflow", "fill", "drain", "operand_bytes_per_cycle"),
    "mma": ("mma",),
}  #: keys of `te`, by the timing to which they belong
_REQUIRED = {"macs": (), "systolic": ("rows", "cols", "dataflow"), "mma": ("mma",)}


@_kept
def _te_rules(te: Te) -> list[BrokenRule]:
    broken = []
    for timing, keys in _ONLY_WITH.items():
        for key in keys:
            value, default = getattr(te, key), type(te).model_fields[key].default
            if timing != te.timing and value != default:
                shown = plain_number(value) if isinstance(value, Fraction) else None if key == "mma" else value
                broken.append(BrokenRule(("te", key), shown, f"it is allowed only with timing {timing}"))
    for key in _REQUIRED[te.timing]:
        if getattr(te, key) is None:
            broken.append(BrokenRule(("te", key), None, f"it is required with timing {te.timing}"))
    if te.overlaps_jobs and te.fill != "overlapped" and te.timing == "systolic":
        rule = "it is allowed only with fill overlapped: jobs follow each other in the array like the folds of a job"
        broken.append(BrokenRule(("te", "drain"), te.drain, rule))
    if broken or te.timing == "systolic":
        return broken
    if te.mma is not None:
        return _mma_rules(te.mma)
    for weight_bits, activation_bits in ((w, a) for w in QBITS for a in QBITS):
        rate = te.rate(weight_bits, activation_bits)
        if not _fits(rate):
            factors = f"f_w[{weight_bits}] and f_a[{activation_bits}]"
            rule = f"times {factors} it makes the rate {rate}, whose terms must be below 2^31"
            return [BrokenRule(("te", "macs_per_cycle"), plain_number(te.macs_per_cycle), rule)]
    return []


def _mma_rules(mma: Mma) -> list[BrokenRule]:
    if not any(shape.qbits_weight >= 8 and shape.qbits_activation >= 8 for shape in mma.taken()):
        at = f" and fidelity {mma.fidelity}" if mma.fidelity else " and no fidelity"
        rule = f"one must take operands of 8 bits or more, with {mma.qbits_accumulator} bits of accumulator{at}"
        return [BrokenRule(("te", "mma", "shapes"), None, rule)]
    return []


@_kept
def _ve_rules(ve: Ve) -> list[BrokenRule]:
    for qbits in QBITS:
        rate = ve.rate(qbits)
        if not _fits(rate):
            rule = f"times ops_per_lane and f_a[{qbits}] it makes the rate {rate}, whose terms must be below 2^31"
            return [BrokenRule(("ve", "lanes"), ve.lanes, rule)]
    return []


MAX_PLACES_SHOWN = 16  #: most places of a list that an error proposes


def _noc_rules(noc: Noc, engines: int, channels: int) -> list[BrokenRule]:
    broken = []
    for key, places, count, counted in (
        ("dma_at", noc.dma_at, engines, "dma.engines"),
        ("dram_at", noc.dram_at, channels, "dram.channels"),
    ):
        if len(places) != count:
            rule = f"the number of places must equal {counted} ({count}), and the list has {len(places)}"
            given = places or ((0, 0),)  # an empty list has no place to repeat, and every mesh has this one
            spread = [list(given[i * len(given) // count]) for i in range(count)] if count <= MAX_PLACES_SHOWN else []
            example = str(spread).replace(" ", "") if spread else ""
            broken.append(BrokenRule(("noc", key), [list(place) for place in places], rule, example))
        for i, (row, col) in enumerate(places):
            if row >= noc.rows or col >= noc.cols:
                rule = f"it must lie in the mesh of {noc.rows} rows and {noc.cols} columns, counted from 0"
                broken.append(BrokenRule(("noc", key, i), [row, col], rule))
    return broken


def _route_rules(config: NpuConfig) -> list[BrokenRule]:
    """Each DMA engine must have a route to each channel and back, over the links of the mesh."""
    engines, channels, noc = config.dma.engines, config.dram.channels, config.noc
    hops = 1 if noc is None else noc.rows + noc.cols
    if engines * channels * hops <= MAX_HOPS:
        return []
    over = f", and rows and columns of the mesh ({hops})," if noc is not None else ""
    rule = f"times dram.channels ({channels}){over} it must be at most 2^22: there is a route for each of them"
    return [BrokenRule(("dma", "engines"), engines, rule)]


def _fits(value: Fraction) -> bool:
    return value.numerator < TERM_LIMIT and value.denominator < TERM_LIMIT


def _capacity_rules(config: NpuConfig) -> list[BrokenRule]:
    """The terms of every possible rate must stay below 2^31 (docs/model/index.md)."""
    weights = [channel.weight for channel in config.dma.channels]
    broken = []
    if config.llc is not None:
        weights.append(1)  # weight of the write-backs of the cache
    rule = rate_rule(config.allocation, "a DRAM channel", config.dram.capacity, weights, dram_weight(config))
    if rule:
        peak = plain_number(config.dram.peak_bw_bytes_per_cycle)
        broken.append(BrokenRule(("dram", "peak_bw_bytes_per_cycle"), peak, rule))
    if config.llc is not None:
        capacity = config.llc.bw_bytes_per_cycle
        rule = rate_rule(config.allocation, "the last-level cache", capacity, weights, cache_weight(config))
        if rule:
            broken.append(BrokenRule(("llc", "bw_bytes_per_cycle"), plain_number(capacity), rule))
    if config.noc is not None:
        capacity = config.noc.link_bytes_per_cycle
        weight = link_weight(config, config.noc) if config.llc is None else cache_weight(config)
        rule = rate_rule(config.allocation, "a mesh link", capacity, weights, weight)
        if rule:
            broken.append(BrokenRule(("noc", "link_bytes_per_cycle"), plain_number(capacity), rule))
    if config.dma.codecs:
        broken += _codec_rate_rules(config, weights)
    return broken


def _codec_rate_rules(config: NpuConfig, weights: list[int]) -> list[BrokenRule]:
    """The terms of the rates of transfers through codecs: a share of a resource, times the ratio."""
    broken = []
    of_engine = engine_weight(config.dma, (0, 1, 2)) * config.dram.channels
    most = max(of_engine, dram_weight(config), 1 if config.noc is None else link_weight(config, config.noc))
    others = [config.dram.capacity, *([] if config.noc is None else [config.noc.link_bytes_per_cycle])]
    for k, codec in enumerate(config.dma.codecs):
        for capacity in (codec.capacity, *others):
            terms = capacity.numerator * codec.ratio.numerator, capacity.denominator * codec.ratio.denominator
            if max(terms) * most >= TERM_LIMIT:
                rule = f"of {capacity} bytes per cycle and weights of {most} in all it makes rates whose terms are 2^31 or more"
                broken.append(BrokenRule(("dma", "codecs", k, "ratio"), plain_number(codec.ratio), rule))
                break
    return broken


def rate_rule(allocation: str, name: str, capacity: Fraction, weights: list[int], weight_sum: int) -> str:
    """The problem of a capacity that flows of these weights share, if their weights add up to at most `weight_sum`; empty if
    there is none.

    A rate is `num * w / (den * W)`, so its terms are largest with the largest weight and the largest sum W. A common factor of
    all weights cancels. `max_min_v1` rounds a rate down if it does not fit, so only the capacities have to fit.
    """
    factor = gcd(*weights)
    top, total = (1, 1) if allocation == "max_min_v1" else (max(weights) // factor, weight_sum // factor)
    if capacity.numerator * top < TERM_LIMIT and capacity.denominator * total < TERM_LIMIT:
        return ""
    return (
        f"{name} of {capacity} bytes per cycle, with weights up to {max(weights)} that may add up to {weight_sum}, "
        "needs rates whose terms are 2^31 or more"
    )
