"""The suites of networks: what they judge, and that a slower network turns them red."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import Row, Skipped, read_suite_data
from kernbench.validate.suites import noc_mesh, noc_traces
from tests.meta.source import ROOT

TRACES = ROOT.parent / "shared" / "data" / "noc_traces"
SLOWER = {"noc": Fraction(11, 10)}


def traces(folder: Path | None, plant: dict[str, Fraction]) -> list[Row]:
    """Rows of recorded traffic."""
    return list(noc_traces.rows(read_suite_data("noc_traces"), Runner(Options(traces=folder), plant)))


def mesh(plant: dict[str, Fraction]) -> list[Row]:
    """Rows of the mesh, the subset."""
    return list(noc_mesh.rows(read_suite_data("noc_mesh"), Runner(Options(quick=True), plant)))


def test_the_mesh_is_near_booksim_and_a_slower_one_is_not() -> None:
    assert {row.verdict for row in mesh({})} == {"pass"}
    assert {row.verdict for row in mesh(SLOWER)} == {"fail"}


def test_a_mesh_saturates_at_the_first_rate_with_three_times_the_latency() -> None:
    data = read_suite_data("noc_mesh")
    rates, tripled = [float(rate) for rate in data.fact("rates")["uniform"]], 3 * float(data.fact("alone"))
    known = {("uniform", rate): tripled for rate in rates}
    assert noc_mesh._saturation(data, "uniform", None, known) == 1.0
    known["uniform", rates[2]] = known["uniform", rates[-1]] = tripled + 1
    assert noc_mesh._saturation(data, "uniform", None, known) == rates[2]


@pytest.mark.skipif(not TRACES.exists(), reason="recorded traces are not beside this checkout (../shared/data/noc_traces)")
def test_recorded_traffic_is_judged_by_its_mean() -> None:
    rows = traces(TRACES, {})
    judged = [row for row in rows if row.allowed is not None]
    assert len(rows) == 32 and [row.verdict for row in judged] == ["pass", "pass"]
    assert next(row for row in traces(TRACES, SLOWER) if row.allowed is not None).verdict == "fail"
    figure = noc_traces.figures(read_suite_data("noc_traces"), rows)[0]
    assert [(line.name, len(line.points)) for line in figure.series] == [
        ("at recorded times", 15), ("closed loop", 15), ("equal", 2),
    ]  # fmt: skip


def test_without_traces_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match=r"^there are no traces; name the folder of tt-npe's noc_trace_json with --traces or"):
        traces(None, {})
    with pytest.raises(InputError, match=r": --traces: it has no \.json file"):
        traces(tmp_path, {})
