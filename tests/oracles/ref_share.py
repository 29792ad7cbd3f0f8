"""Rates of member flows on shared resources (docs/model/sharing.md, P4), in exact rationals."""

from __future__ import annotations

from fractions import Fraction
from math import floor

Sharer = tuple[int, tuple[str, ...]]  # (weight, names of the resources on the route)

LIMIT = 1 << 31  # terms of a rate stay below this


def rates(rule: str, sharers: list[Sharer], capacity: dict[str, Fraction]) -> list[Fraction]:
    """Bytes per cycle of each member flow, in the order of `sharers`.

    `fifo_v1` chooses the members; among them its rates are those of `shared_bw_v1`.
    """
    if rule == "max_min_v1":
        return [_floored(rate) for rate in _max_min(sharers, capacity)]
    return _proportional(sharers, capacity)


def _proportional(sharers: list[Sharer], capacity: dict[str, Fraction]) -> list[Fraction]:
    total: dict[str, int] = {}
    for weight, route in sharers:
        for name in route:
            total[name] = total.get(name, 0) + weight
    return [min(capacity[name] * weight / total[name] for name in route) for weight, route in sharers]


def _max_min(sharers: list[Sharer], capacity: dict[str, Fraction]) -> list[Fraction]:
    """Progressive filling: every rate grows as its weight does, until a resource on its route is full."""
    rate: dict[int, Fraction] = {}
    while len(rate) < len(sharers):
        level: dict[str, Fraction] = {}  # rate per unit of weight at which a resource is full
        for name in {name for _, route in sharers for name in route}:
            users = [i for i, (_, route) in enumerate(sharers) if name in route]
            growing = sum(sharers[i][0] for i in users if i not in rate)
            if growing:
                level[name] = (capacity[name] - sum(rate[i] for i in users if i in rate)) / growing
        lowest = min(level.values())
        full = {name for name, at in level.items() if at == lowest}
        for i, (weight, route) in enumerate(sharers):
            if i not in rate and full.intersection(route):
                rate[i] = lowest * weight
    return [rate[i] for i in range(len(sharers))]


def _floored(rate: Fraction) -> Fraction:
    if rate.numerator < LIMIT and rate.denominator < LIMIT:
        return rate
    return Fraction(floor(rate * LIMIT), LIMIT)
