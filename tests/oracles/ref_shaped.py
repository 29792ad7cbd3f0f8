"""Flows over resources whose capacities change from cycle to cycle, by docs/model/sharing.md alone: bytes in plain loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Flow:
    """Bytes that a component moves over resources from P4 of cycle `start` on."""

    start: int
    nbytes: int
    path: Sequence[int]
    weight: int
    rate: Fraction = Fraction(0)
    carry: int = 0  #: [1/b B], b the denominator of the rate
    left: int = field(default=0, init=False)
    end: int = -1  #: the cycle of the last byte

    def __post_init__(self) -> None:
        self.left = self.nbytes


def run(
    flows: Sequence[Flow], capacities: Sequence[Fraction], changes: Mapping[tuple[int, int], Fraction]
) -> None:
    """Runs until all flows have ended, and fills in the ends. `changes`: capacities by cycle and resource, from its P4 on."""
    now_capacity = list(capacities)
    cycle = -1
    while any(flow.left for flow in flows):
        cycle += 1
        for (at, resource), capacity in changes.items():
            if at == cycle:
                now_capacity[resource] = capacity
        members = [flow for flow in flows if flow.start <= cycle and flow.left]
        weights = [sum(flow.weight for flow in members if resource in flow.path) for resource in range(len(capacities))]
        for flow in members:
            rate = min(now_capacity[resource] * flow.weight / weights[resource] for resource in flow.path)
            if rate != flow.rate:
                flow.carry = flow.carry * rate.denominator // flow.rate.denominator
                flow.rate = rate
            flow.carry += rate.numerator
            moved = min(flow.left, flow.carry // rate.denominator)
            flow.carry -= moved * rate.denominator
            flow.left -= moved
            if not flow.left:
                flow.end = cycle
