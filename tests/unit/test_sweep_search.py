"""Searches: the same points for the same spec whoever runs them, resumed where they were, and the best that the grid has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_rational
from kernbench.sweep import runner
from kernbench.sweep import search as search_module
from kernbench.sweep.executors.threads import Threads
from kernbench.sweep.goals import goal_value, is_goal, keeps
from kernbench.sweep.report.analysis import pareto, ranked
from kernbench.sweep.report.table import csv_bytes, read_table
from kernbench.sweep.search import Search, Searched
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.tables import Row
from kernbench.sweep.work import Work
from tests.sweep_samples import run_spec, write_spec

pytest.importorskip("optuna", reason="the extra `search` is not installed")

AXES = """\
schema: kernbench/sweep/1
targets: [tiles.json]
machine: small.yaml
axes:
  dram.t_setup_cycles: {from: 10, to: 80, step: 10}
  te.macs_per_cycle: [64, 128, 256, 512, 1024]
"""
GRID = 40  #: points of AXES
SEARCH = AXES + "search: {trials: 24, seed: 3, batch: 4}\n"


def search_in(path: Path, store: Path, threads: int = 2, stored: Any = lambda rows: None) -> Searched:
    spec = load_spec(path)
    with Store.write(store) as opened:
        return Search(spec, opened, Threads(Work(spec.targets, spec.machines), threads), stored=stored).run()


def csv_of(store: Path) -> bytes:
    with Store.read(store) as opened:
        return csv_bytes(read_table(opened))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, bytes]]:
    """The spec, and the table of its search."""
    folder = tmp_path_factory.mktemp("search")
    path = write_spec(folder, SEARCH)
    search_in(path, folder / "whole.sqlite")
    yield path, csv_of(folder / "whole.sqlite")


def test_points_depend_on_the_spec_alone(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    path, table = whole
    search_in(path, tmp_path / "one.sqlite", threads=1)
    assert csv_of(tmp_path / "one.sqlite") == table
    other = write_spec(tmp_path, SEARCH.replace("seed: 3", "seed: 4"))
    search_in(other, tmp_path / "other.sqlite")
    assert csv_of(tmp_path / "other.sqlite") != table


def test_an_interrupted_search_goes_on(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    path, table = whole
    store, seen = tmp_path / "s.sqlite", []

    def interrupt(rows: Sequence[Row]) -> None:
        seen.extend(rows)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_in(path, store, stored=interrupt)
    again = search_in(path, store)
    assert again.outcome.known >= len(seen) > 0
    assert csv_of(store) == table


def test_an_interrupt_is_not_hidden_by_a_store_without_room(
    whole: tuple[Path, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, table = whole
    store = tmp_path / "s.sqlite"
    monkeypatch.setattr(runner, "COMMIT_ROWS", 1)

    def interrupt(_: Sequence[Row]) -> None:
        monkeypatch.setattr(search_module, "keep_sweep", refuse)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_in(path, store, stored=interrupt)
    monkeypatch.undo()
    search_in(path, store)
    assert csv_of(store) == table


def refuse(*_: Any) -> None:
    raise InputError(Problem("s.sqlite", "it cannot be written: the disk is full"))


def test_last_results_that_cannot_be_stored_are_an_error(
    whole: tuple[Path, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the list of points has room."""
    monkeypatch.setattr(runner.Writer, "write", refuse)
    with pytest.raises(InputError, match="the disk is full"):
        search_in(whole[0], tmp_path / "s.sqlite")


def test_a_budget_stops_it_and_more_go_on(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    path, table = whole
    short = write_spec(tmp_path, SEARCH + "budget: {points: 7}\nname: s\n", "short.yaml")
    store = tmp_path / "s.sqlite"
    first = search_in(short, store)
    assert first.outcome.ran == 7 and first.outcome.stopped == "its budget of 7 points"
    second = search_in(path, store)
    assert second.outcome.known == 7 and not second.outcome.stopped
    assert csv_of(store) == table


def test_results_of_other_sweeps_change_nothing(whole: tuple[Path, bytes], tmp_path: Path) -> None:
    """Not even those of points that the search does not run."""
    path, table = whole
    store = tmp_path / "s.sqlite"
    run_spec(write_spec(tmp_path, AXES + "name: grid\n", "grid.yaml"), store)
    again = search_in(path, store)
    assert again.outcome.ran == 0
    with Store.read(store) as opened:
        assert csv_bytes(read_table(opened, "s")) == table


def test_the_best_is_that_of_the_grid_within_the_constraints(tmp_path: Path) -> None:
    more = 'constraints: ["te.macs_per_cycle <= 512", "dram.t_setup_cycles >= 20"]\n'
    path = write_spec(tmp_path, AXES + more + "search: {trials: 50, seed: 1}\n")
    search_in(path, tmp_path / "s.sqlite")
    run_spec(write_spec(tmp_path, AXES + more, "grid.yaml"), tmp_path / "grid.sqlite")
    found = []
    for name in ("s", "grid"):
        with Store.read(tmp_path / f"{name}.sqlite") as opened:
            table = read_table(opened)
        best = ranked(table, ("ns", "min"))[0]
        assert best.values[0] >= 20 and best.values[1] <= 512
        found.append(goal_value(best.row, "ns") if best.row else None)
    assert found[0] == found[1] is not None


def test_pruned_points_are_worse_than_the_best(tmp_path: Path) -> None:
    pruned = search_in(write_spec(tmp_path, AXES + "search: {trials: 32, seed: 2}\n"), tmp_path / "s.sqlite")
    assert pruned.pruned > 0
    run_spec(write_spec(tmp_path, AXES, "grid.yaml"), tmp_path / "grid.sqlite")
    with Store.read(tmp_path / "grid.sqlite") as opened:
        grid = {entry.task.key: entry for entry in read_table(opened).entries}
    ran = {point.task.key for point in pruned.points.points}
    best = min(grid[key].row.cycles for key in ran)  # type: ignore[union-attr, type-var]
    assert best == min(entry.row.cycles for entry in grid.values())  # type: ignore[union-attr, type-var]
    whole = search_in(write_spec(tmp_path, AXES + "search: {trials: 32, seed: 2, prune: false}\n"), tmp_path / "t.sqlite")
    assert whole.pruned == 0


def test_several_goals_have_a_front(tmp_path: Path) -> None:
    text = AXES + "goals: {ns: min, te.macs_per_cycle * 0 + energy_pj * ns: min}\nsearch: {trials: 8}\n"
    with pytest.raises(InputError, match=r"there is no metric te\.macs_per_cycle"):
        load_spec(write_spec(tmp_path, text))
    text = text.replace("te.macs_per_cycle * 0 + ", "")
    search_in(write_spec(tmp_path, text.replace("trials: 8", "trials: 32, seed: 5, batch: 16")), tmp_path / "s.sqlite")
    with Store.read(tmp_path / "s.sqlite") as opened:
        table = read_table(opened)
    front = pareto(table, table.goals)
    assert 1 <= len(front) < len(table.entries)
    assert table.columns[-2] == "energy_pj * ns"
    first = table.entries[0]
    assert first.row is not None
    ns = float(parse_rational(first.row.ns or 0))
    assert table.cells(first)[-2] == pytest.approx(first.row.metrics["energy_pj"] * ns)


@pytest.mark.parametrize("meets", ["cycles <= 600", "ns < 0", "cycles > 0", "cycles <= 520 and te.macs_per_cycle > 64"])
def test_the_largest_value_is_that_of_a_scan(tmp_path: Path, meets: str) -> None:
    path = write_spec(tmp_path, AXES + f'search: {{largest: dram.t_setup_cycles, meets: "{meets}"}}\n')
    found = search_in(path, tmp_path / "s.sqlite")
    run_spec(write_spec(tmp_path, AXES, "grid.yaml"), tmp_path / "grid.sqlite")
    with Store.read(tmp_path / "grid.sqlite") as opened:
        table = read_table(opened)
    wanted: dict[int, Any] = dict.fromkeys((64, 128, 256, 512, 1024))
    for entry in table.entries:
        if entry.row is not None and keeps(entry.row, table.place(entry), (meets,)):
            wanted[entry.values[1]] = entry.values[0]
    assert {place["te.macs_per_cycle"]: largest for place, largest in found.largest} == wanted
    assert found.outcome.ran <= 4 * 5 < GRID


def test_conditions_leave_out_proposals(tmp_path: Path) -> None:
    path = write_spec(tmp_path, AXES + 'where: ["te.macs_per_cycle < 256"]\nsearch: {trials: 10, seed: 1}\n')
    found = search_in(path, tmp_path / "s.sqlite")
    assert found.proposals > 10 > 0
    assert all(point.values[1] < 256 for point in found.points.points)


def test_a_machine_that_is_not_valid_is_named_with_its_line(tmp_path: Path) -> None:
    text = SEARCH.replace("[64, 128, 256, 512, 1024]", "[-1]").replace("trials: 24", "trials: 2")
    with pytest.raises(InputError, match=r"s\.yaml:6:\d+: te\.macs_per_cycle = -1"):
        search_in(write_spec(tmp_path, text), tmp_path / "s.sqlite")
    found = search_in(write_spec(tmp_path, text + "invalid: skip\n"), tmp_path / "t.sqlite")
    assert found.outcome.ran == 0 and not found.points.points


@pytest.mark.parametrize(
    "line, message",
    [
        ("search: {}", "it must have the key trials"),
        ("search: {trials: 0}", "it must be an integer of at least 1"),
        ("search: {trials: 3, sampler: grid}", "it must be one of tpe, nsga2"),
        ("search: {trials: 3, meets: ns < 3}", "this key is not valid together with largest or meets"),
        ("search: {largest: dram.t_setup_cycles}", "meets is missing"),
        ("search: {largest: dram.t_setup, meets: ns < 3}", "it must be an axis of its own"),
        ("search: {largest: dram.t_setup_cycles, meets: speed < 3}", "speed is neither a number of a result nor an axis"),
        ("search: {trials: 3}\nsample: {random: 3}", "a sweep has a sample or a search, not both"),
        ("constraints: [3 +]", "it must be a comparison"),
        ("constraints: [energy < 3]", "did you mean energy_pj"),
        ("goals: {tokens_per_s / watts: max}", "there is no metric watts"),
        ("goals: {ns < 3: max}", "it must be an expression of numbers"),
    ],
)
def test_mistakes_of_a_spec(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_spec(write_spec(tmp_path, AXES + line + "\n"))
    assert message in str(caught.value)


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(search_module, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'kernbench\[search\]'"):
        search_in(write_spec(tmp_path, SEARCH), tmp_path / "s.sqlite")


def test_expressions_are_exact() -> None:
    row = Row(key="k", status="done", cycles=7, ns="7/3", metrics={"energy_pj": 14.0, "tokens_per_s": 3})
    assert goal_value(row, "energy_pj / ns") == 6
    assert goal_value(row, "power_w") == goal_value(row, "energy_w") == goal_value(row, "energy_pj / ns / 1000")
    assert goal_value(row, "tokens_per_s / (cycles - 7)") is None  # by zero
    assert goal_value(row, "te_busy * 2") is None  # it has none
    assert not is_goal("__import__('os')") and not is_goal("-'x'") and not is_goal("3")
    assert keeps(row, {}, ("ns < 7 / 3 + 1", "cycles == 7")) and not keeps(row, {}, ("ns < 7 / 3",))
