"""The same table whoever runs a sweep: any number of processes or threads, any order, any seed of hashes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sweep.executors.threads import Threads
from kernbench.sweep.points import points_of
from kernbench.sweep.report.analysis import influences, pareto, ranked
from kernbench.sweep.report.page import page_bytes
from kernbench.sweep.report.table import Entry, SweepTable
from kernbench.sweep.runner import run_missing
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.sweeps import About, keep_sweep
from kernbench.sweep.store.tables import Row
from kernbench.sweep.work import Context, Work
from tests.sweep_samples import run_spec, table_of, write_spec


def test_hash_seeds_and_processes(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    run_spec(spec, tmp_path / "calm.sqlite")
    for seed, jobs in (("0", "1"), ("12345", "2")):
        store = tmp_path / f"{seed}.sqlite"
        command = [sys.executable, "-c", "from kernbench.cli.main import main; main()", "sweep", "run", str(spec)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([*command, "--store", str(store), "--jobs", jobs, "--quiet"], check=True, env=environment, timeout=120)
        assert table_of(store) == table_of(tmp_path / "calm.sqlite")


def test_any_order_in_any_number_of_goes(tmp_path: Path) -> None:
    """Points in random order, stopped again and again."""
    path = write_spec(tmp_path)
    run_spec(path, tmp_path / "calm.sqlite")
    spec = load_spec(path)
    points = points_of(spec)
    for seed in range(4):
        draw = random.Random(seed)
        order = draw.sample(points.points, len(points))
        place = tmp_path / f"{seed}.sqlite"
        while order:
            some, order = order[: draw.randrange(1, 5)], order[draw.randrange(1, 5) :]
            with Store.write(place) as store:
                keep_sweep(store, points)
                run_missing(some, store, Threads(Work(spec.targets, spec.machines), draw.randrange(1, 4)))
        run_spec(path, place)
        assert table_of(place) == table_of(tmp_path / "calm.sqlite")


def made_up(values: list[tuple[int, int, int]]) -> SweepTable:
    """A table of one axis and two goals, from (axis, ns, energy)."""
    about = About(["a"], [("ns", "min"), ("energy_pj", "min")], 0, 0, Context([], []))
    entries = []
    for i, (axis, ns, energy) in enumerate(values):
        row = Row(key=str(i), status="done", cycles=ns, ns=ns, metrics={"energy_pj": energy})
        entries.append(Entry(i, "t", "m", (axis,), None, row))  # type: ignore[arg-type]
    return SweepTable("s", about, entries)


TABLES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@given(TABLES)
@settings(max_examples=200, deadline=None)
def test_the_front_is_what_nothing_dominates(values: list[tuple[int, int, int]]) -> None:
    """Against every pair, the slow and obvious way."""
    table = made_up(values)
    on_front = {entry.number for entry in pareto(table, table.goals)}
    for i, (_, ns, energy) in enumerate(values):
        dominated = any((a <= ns and b <= energy) and (a < ns or b < energy) for _, a, b in values)
        assert (i in on_front) is not dominated
    order = sorted(range(len(values)), key=lambda i: (values[i][1], i))
    assert [entry.number for entry in ranked(table, ("ns", "min"))] == order


@given(TABLES)
@settings(max_examples=200, deadline=None)
def test_what_an_axis_explains(values: list[tuple[int, int, int]]) -> None:
    """Variance between the axis's values and within them add up to all of it."""
    table = made_up(values)
    found = influences(table, ("ns", "min"))
    groups = {axis: [ns for a, ns, _ in values if a == axis] for axis, _, _ in values}
    if len(groups) < 2:
        assert found == []
        return
    mean = sum(ns for _, ns, _ in values) / len(values)
    total = sum((ns - mean) ** 2 for _, ns, _ in values)
    within = sum((ns - sum(group) / len(group)) ** 2 for group in groups.values() for ns in group)
    assert abs(found[0].share - (1 - within / total if total else 0)) < 1e-9
    assert {level: mean for level, _, mean in found[0].levels} == {axis: sum(g) / len(g) for axis, g in groups.items()}


def test_means_are_parts_only_where_two_targets_have_results() -> None:
    """A target of which nothing is done yet has no mean, and the page says cycles and not per cent."""
    table = made_up([(1, 100, 1), (2, 300, 2)])
    waiting = Entry(2, "later", "m", (1,), None, None)  # type: ignore[arg-type]
    half = replace(table, entries=[*table.entries, waiting])
    done = replace(waiting, row=Row(key="2", status="done", cycles=50, ns=50, metrics={}))
    for one in (table, half):
        found = influences(one, ("ns", "min"))[0]
        assert (found.relative, [mean for _, _, mean in found.levels]) == (False, [100, 300])
    assert influences(replace(table, entries=[*table.entries, done]), ("ns", "min"))[0].relative
    named = [replace(entry, task=SimpleNamespace(key=str(entry.number))) for entry in half.entries]  # type: ignore[arg-type]
    page = page_bytes(replace(half, entries=named), half.goals, {}).decode()
    assert '"relative":false' in page and '"relative":true' not in page


def test_a_table_says_its_names_once() -> None:
    """They are asked for every point: found again each time, ten thousand points would take minutes."""
    table = made_up([(1, 1, 1), (2, 2, 2)])
    assert table.names is table.names
