"""Influences of axes with and without kept cuts, beside a count of every level."""

from __future__ import annotations

import random
from statistics import fmean, pvariance
from types import SimpleNamespace
from typing import Any

import pytest

from kernbench.sweep.report.analysis import Cuts, influences, interactions
from kernbench.sweep.report.table import Entry, SweepTable
from kernbench.sweep.store.tables import Row


def _table(seed: int) -> SweepTable:
    draw = random.Random(seed)
    entries = []
    for number in range(60):
        values = draw.choice((4, 8, 2)), draw.choice(("a", "b")), draw.randrange(40)
        metrics: dict[str, Any] = {"energy_pj": draw.randrange(1, 99)} | ({"te_busy": draw.random()} if number % 3 else {})
        row = Row(key=str(number), status="done", cycles=draw.randrange(1, 50), ns=number, metrics=metrics)
        entries.append(Entry(number, "t", "m", values, SimpleNamespace(key=str(number)), row))  # type: ignore[arg-type]
    return SweepTable("s", SimpleNamespace(names=["bits", "map", "size"]), entries)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_kept_cuts_change_nothing(seed: int) -> None:
    table, cuts = _table(seed), Cuts()
    for name in ("cycles", "energy_pj", "te_busy", "cycles"):
        assert influences(table, (name, "min"), cuts) == influences(table, (name, "min"))
    assert len(cuts) == 6  # of three axes, for all points and for those with a te_busy


@pytest.mark.parametrize("name", ["cycles", "te_busy"])
def test_a_share_is_the_variance_of_the_means(name: str) -> None:
    table = _table(7)
    value = {e.number: float(e.row.cycles if name == "cycles" else e.row.metrics.get(name, -1)) for e in table.entries if e.row}
    known = [entry for entry in table.entries if value[entry.number] >= 0]
    found = {one.name: one for one in influences(table, (name, "min"))}
    middle, total = fmean(value[e.number] for e in known), pvariance([value[e.number] for e in known])
    for axis, position in (("bits", 0), ("map", 1)):
        groups: dict[Any, list[float]] = {}
        for entry in known:
            groups.setdefault(entry.values[position], []).append(value[entry.number])
        between = sum(len(some) * (fmean(some) - middle) ** 2 for some in groups.values()) / len(known)
        assert found[axis].share == pytest.approx(between / total)
        assert {level: (count, pytest.approx(mean)) for level, count, mean in found[axis].levels} == {
            level: (len(some), fmean(some)) for level, some in groups.items()
        }
    assert [level for level, _, _ in found["bits"].levels] == [2, 4, 8]


@pytest.mark.parametrize("count", [13, 50, 64])
def test_eighths_of_an_axis_differ_by_at_most_one_value(count: int) -> None:
    entries = []
    for i in range(3 * count):
        row = Row(key=str(i), status="done", cycles=i, ns=i, metrics={})
        entries.append(Entry(i, "t", "m", (i % count, i // count), SimpleNamespace(key=str(i)), row))  # type: ignore[arg-type]
    found = influences(SweepTable("s", SimpleNamespace(names=["size", "turn"]), entries), ("ns", "min"))  # type: ignore[arg-type]
    (size,) = (one for one in found if one.name == "size")
    sizes = [points // 3 for _, points, _ in size.levels]
    assert len(sizes) == 8 and sum(sizes) == count and max(sizes) - min(sizes) <= 1
    assert interactions(found, 3 * count) is not None and interactions(found, 3 * count - 1) is None
