"""Sweeps with `area_table`: the area of each point's machine as a column, a goal and a constraint."""

from __future__ import annotations

import csv
import io
import re
from fractions import Fraction
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.sweep.area import Area
from kernbench.sweep.executors.pool import Pool
from kernbench.sweep.points import points_of
from kernbench.sweep.report.table import read_table as read_results
from kernbench.sweep.spec import Spec
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.sweeps import read_about
from kernbench.sweep.work import Context
from tests.sweep_samples import run_spec, table_of, write_spec

HEAD = "schema: kernbench/sweep/1\ntargets: [tiles.json]\nmachine: small.yaml\n"
TABLE = """\
schema: kernbench/energy-table/1
sources: {s: {title: t}}
mac: {}
sram: [{size_bytes: 8192, width_bits: 64, pj: 1, source: s}]
dram: {}
area: {sram_mm2_per_mib: {value: 8, source: s}, mac_mm2: {value: "1/1024", source: s}}
"""
AXES = "axes: {te.macs_per_cycle: [256, 1024], spm.num_banks: [8, 16]}\n"


def spec_in(folder: Path, text: str, table: str = TABLE) -> Path:
    """A spec with an own table beside it."""
    (folder / "own.yaml").write_text(table, encoding="utf-8")
    return write_spec(folder, HEAD + text)


def lines(store: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table_of(store).decode())))


def by_hand(line: dict[str, str], spec: Spec) -> float:
    """[mm2] 8 mm2 for a MiB of scratchpad, and 1 mm2 for 1024 MACs."""
    base = spec.machines[0].base
    nbytes = int(line["spm.num_banks"]) * base["spm"]["bank_size_bytes"]
    return 8 * nbytes / 2**20 + base["te"]["engines"] * int(line["te.macs_per_cycle"]) / 1024


def test_each_point_has_the_area_of_its_machine(tmp_path: Path) -> None:
    path = spec_in(tmp_path, f"{AXES}area_table: own.yaml\n")
    run_spec(path, tmp_path / "s.sqlite")
    found, spec = lines(tmp_path / "s.sqlite"), load_spec(path)
    assert [float(line["area_mm2"]) for line in found] == [by_hand(line, spec) for line in found]
    assert len({line["area_mm2"] for line in found}) == 4
    run_spec(path, tmp_path / "p.sqlite", Pool(Context.of(spec), 1, spec.limits, fork=True))
    assert table_of(tmp_path / "p.sqlite") == table_of(tmp_path / "s.sqlite")


def test_goals_and_constraints_use_the_area(tmp_path: Path) -> None:
    path = spec_in(
        tmp_path, f"{AXES}area_table: own.yaml\ngoals: {{area_mm2: min, ns * area_mm2: min}}\nconstraints: [area_mm2 <= 2]\n"
    )
    run_spec(path, tmp_path / "s.sqlite")
    with Store.read(tmp_path / "s.sqlite") as store:
        table = read_results(store)
        kept = [table.allowed(entry) for entry in table.entries]
    found = lines(tmp_path / "s.sqlite")
    assert kept == [float(line["area_mm2"]) <= 2 for line in found] and {*kept} == {True, False}
    for line in found:
        assert float(line["ns * area_mm2"]) == pytest.approx(float(Fraction(line["ns"])) * float(line["area_mm2"]))


def test_another_area_is_another_result_and_the_same_area_is_not_run_again(tmp_path: Path) -> None:
    def keys(text: str, table: str = TABLE) -> list[str]:
        return [point.task.key for point in points_of(load_spec(spec_in(tmp_path, AXES + text, table))).points]

    first = keys("area_table: own.yaml\n")
    assert not {*first} & {*keys("")} and not {*first} & {*keys("area_table: 7nm\n")}
    assert first == keys("area_table: own.yaml\n", TABLE.replace("pj: 1", "pj: 2"))


@pytest.mark.parametrize("machine", ["h100", "h100_8x"])
def test_chips_and_boards_have_no_area(machine: str) -> None:
    assert Area(sram_mm2_per_mib=2, mac_mm2=1).mm2(load_config(machine)) is None


@pytest.mark.parametrize(("machine", "pes"), [("single_cube", 8), ("two_sips", 64)])
def test_the_area_of_a_system_is_that_of_all_its_pes(machine: str, pes: int) -> None:
    """32 banks of 128 KiB and 8,192 MACs a PE."""
    area = Area(sram_mm2_per_mib=2, mac_mm2="1/4096")
    assert area.mm2(load_config(machine)) == pes * (2 * 4 + 2)


REFUSED = [
    ("area_table: 3nm\n", 's.yaml:4:13: area_table = "3nm", but there is no such table; tables are 45nm, 7nm, or a .yaml file'),
    ("area_table: none.yaml\n", "s.yaml:4:13: area_table: none.yaml: the file does not exist"),
    (
        "goals: {ns / area_mm2: min}\n",
        "s.yaml:4:24: goals.ns / area_mm2: results have area_mm2 only in a sweep with the key area_table; add the key "
        "area_table with one of 45nm, 7nm, or a .yaml file",
    ),
    ("constraints: [area_mm2 < 3]\n", "s.yaml:4:15: constraints[0]: results have area_mm2 only in a sweep with the key area_t"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_table_that_is_not_there_is_refused_at_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        load_spec(spec_in(tmp_path, text))
    assert str(refused.value).replace(f"{tmp_path}/", "").startswith(message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mac_mm2", "mac", r"own.yaml:6:7: area: the table .*own.yaml has no mac_mm2 there; it has sram_mm2_per_mib"),
        ("value: 8", "value: 2000000", r"own.yaml:6:\d+: area.sram_mm2_per_mib = .*, but it must be at most 1000000 mm2"),
        ("value: 8", "value: -8", r"own.yaml:6:\d+: area.sram_mm2_per_mib.value = -8, but it must be at least 0"),
    ],
)
def test_a_table_without_a_figure_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        load_spec(spec_in(tmp_path, "area_table: own.yaml\n", TABLE.replace(old, new)))
    assert re.search(message, str(refused.value).replace(f"{tmp_path}/", ""))


def test_damaged_figures_in_a_store_are_refused(tmp_path: Path) -> None:
    run_spec(spec_in(tmp_path, "area_table: own.yaml\n"), tmp_path / "s.sqlite")
    with Store.write(tmp_path / "s.sqlite") as store, store.writing() as database:
        database.execute("""UPDATE sweeps SET about = replace(about, '"mac_mm2":0.0009765625', '"mac_mm2":"1/0"')""")
    with Store.read(tmp_path / "s.sqlite") as store, pytest.raises(InputError, match=r"about\.context\.area"):
        read_about(store, "s")
