"""The members of each channel and link in each cycle, and the resulting rate of a flow as an exact rational.

Rates follow docs/model/sharing.md and are computed from the intervals of the trace. A flow is a member of every resource of its
route from its start to its end, except for the cycles in which it is suspended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import floor, lcm

from kernbench.trace.why.history import Flow, History, WriteBack

TERMS = 1 << 31  # largest term of a max-min rate; a rate that needs a larger one is rounded down

Kind = tuple[int, tuple[str, ...]]  #: weight and route: flows with equal weight and route have one rate
Member = Flow | WriteBack  #: of a resource
Filled = tuple[Fraction, str]  #: rate, and the resource that limits the rate


@dataclass(frozen=True, slots=True)
class Share:
    """Some cycles of a flow at one rate."""

    start: int
    end: int
    rate: Fraction  #: [B/cycle]
    limit: str  #: the resource that limits the rate
    #: other members of that resource, with their weights; each takes a share in proportion to its weight
    others: tuple[tuple[Member, int], ...]
    weight: int  #: sum of the weights of the others


@dataclass(slots=True)
class _Members:
    """The members of a resource over time."""

    times: list[int] = field(default_factory=list)
    members: list[tuple[Member, ...]] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    def at(self, cycle: int) -> int:
        return bisect_right(self.times, cycle) - 1


class Shares:
    """All flows of a run on all resources."""

    def __init__(self, history: History) -> None:
        self.capacity = history.capacity
        self.max_min = history.allocation == "max_min_v1"
        flows: list[Member] = [flow for job in history.jobs.values() for flow in job.flows.values()]
        flows += history.write_backs
        self._on: dict[str, _Members] = {}
        changes: dict[str, list[tuple[int, int, int]]] = {}
        for index, flow in enumerate(flows):
            for start, end in member_spans(flow):
                # the name "" means the members of all resources
                for name in (*flow.route, *([""] if self.max_min else [])):
                    changes.setdefault(name, []).extend(((start, 1, index), (end, 0, index)))
        for name, some in changes.items():
            self._on[name] = _timeline(some, flows)
        self._filled: dict[tuple[tuple[Kind, int], ...], dict[Kind, Filled]] = {}

    def full_rate(self, flow: Flow) -> tuple[Fraction, str]:
        """The rate of a flow without other flows, and the resource that limits this rate."""
        limit = min(flow.route, key=lambda name: (self.capacity[name], flow.route.index(name)))
        return self.capacity[limit], limit

    def holders(self, flow: Flow, start: int, end: int) -> Iterator[tuple[int, int, tuple[Member, ...]]]:
        """The members of a flow's channel, over time."""
        members = self._on.get(flow.route[0])
        for a, b in _cut(start, end, [members] if members is not None else []):
            at = -1 if members is None else members.at(a)
            yield a, b, members.members[at] if members is not None and at >= 0 else ()

    def of(self, flow: Flow, start: int, end: int) -> Iterator[Share]:
        """The rates of a flow in cycles in which the flow is always a member."""
        names = ("",) if self.max_min else flow.route
        for a, b in _cut(start, end, [self._on[name] for name in names]):
            yield self._by_filling(flow, a, b) if self.max_min else self._by_weight(flow, a, b)

    def _by_weight(self, flow: Flow, start: int, end: int) -> Share:
        limit, least = "", Fraction(0)
        for name in flow.route:
            members = self._on[name]
            level = self.capacity[name] / members.weights[members.at(start)]
            if not limit or level < least:
                limit, least = name, level
        members = self._on[limit]
        at = members.at(start)
        others = [other for other in members.members[at] if other is not flow]
        weight = members.weights[at] - flow.weight
        weights = tuple((other, other.weight) for other in others)
        return Share(start, end, least * flow.weight, limit, weights, weight)

    def _by_filling(self, flow: Flow, start: int, end: int) -> Share:
        everyone = self._on[""]
        members = everyone.members[everyone.at(start)]
        counts: dict[Kind, int] = {}
        for other in members:
            kind = (other.weight, other.route)
            counts[kind] = counts.get(kind, 0) + 1
        key = tuple(sorted(counts.items()))
        if key not in self._filled:
            self._filled[key] = max_min(counts, self.capacity)
        rates = self._filled[key]
        rate, limit = rates[flow.weight, flow.route]
        others = [other for other in members if other is not flow and limit in other.route]
        taken = [rates[other.weight, other.route][0] for other in others]
        scale = lcm(*(one.denominator for one in taken))  # rates are whole numbers in units of 1/scale
        whole = [one.numerator * (scale // one.denominator) for one in taken]
        return Share(start, end, rate, limit, tuple(zip(others, whole, strict=True)), sum(whole))


def member_spans(flow: Member) -> list[tuple[int, int]]:
    """The cycles in which a flow is a member of its resources."""
    spans, start = [], flow.since
    for out in flow.outs:
        if start < out.since:
            spans.append((start, out.since))
        start = out.until
    if start < flow.until:
        spans.append((start, flow.until))
    return spans


def max_min(counts: dict[Kind, int], capacity: dict[str, Fraction]) -> dict[Kind, Filled]:
    """Progressive filling: rates grow in proportion to weights until, for each flow, a resource of its route is full."""
    free = {name: capacity[name] for _, route in counts for name in route}
    growing = dict(counts)
    found: dict[Kind, Filled] = {}
    while growing:
        weights = dict.fromkeys(free, 0)
        for (weight, route), count in growing.items():
            for name in route:
                weights[name] += weight * count
        levels = {name: free[name] / weights[name] for name in free if weights[name]}
        lowest = min(levels.values())
        full = [name for name, level in levels.items() if level == lowest]
        done = [kind for kind in growing if not set(kind[1]).isdisjoint(full)]
        for kind in done:
            weight, route = kind
            limit = next(name for name in route if name in full)
            found[kind] = (_floored(lowest * weight), limit)
            count = growing.pop(kind)
            for name in route:
                free[name] -= lowest * weight * count
    return found


def _floored(rate: Fraction) -> Fraction:
    if rate.numerator < TERMS and rate.denominator < TERMS:
        return rate
    return Fraction(floor(rate * TERMS), TERMS)


def _timeline(changes: list[tuple[int, int, int]], flows: Sequence[Member]) -> _Members:
    """The members after each cycle in which they change, in the order of the flows."""
    changes.sort()
    made = _Members()
    here: dict[int, Member] = {}
    for i, (cycle, joins, index) in enumerate(changes):
        if joins:
            here[index] = flows[index]
        else:
            del here[index]
        if i + 1 == len(changes) or changes[i + 1][0] != cycle:
            members = tuple(here[index] for index in sorted(here))
            made.times.append(cycle)
            made.members.append(members)
            made.weights.append(sum(flow.weight for flow in members))
    return made


def _cut(start: int, end: int, timelines: Sequence[_Members]) -> Iterator[tuple[int, int]]:
    """Pieces of [start, end) in which no timeline changes."""
    marks = {start, end}
    for members in timelines:
        first = bisect_right(members.times, start)
        marks.update(members.times[first : bisect_right(members.times, end - 1, lo=first)])
    cuts = sorted(marks)
    return pairwise(cuts)
