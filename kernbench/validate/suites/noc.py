"""Networks of routers beside BookSim2: patterns, sizes, virtual channels and packets of several flits."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kernbench.analysis.noc.load import Window, run_load, saturation
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import no_file, read_bounded
from kernbench.common.units import ceil_div
from kernbench.noc.network import MeshSpec
from kernbench.noc.traffic import PATTERNS, Traffic
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

TABLE = "booksim2.csv"  #: the table in a folder of figures
COLUMNS = ("k", "traffic", "num_vcs", "packet_size", "injection_rate", "latency")  #: names of BookSim's own keys
MAX_BYTES = 64 << 20
BELOW = 0.9  #: share of the saturation load up to which rows are judged; rows at higher loads are only reported
ALLOWED = 0.02
QUICK = 10  #: every n-th row is run with `--quick`
WHY = "the same routers; draws of traffic differ, which shows more the nearer the load is to saturation"
PAST = "near or past saturation the latency grows with the time that is measured"


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """The recorded figures, then those of a folder."""
    cases = list(data.cases)
    if runner.options.booksim is not None:
        cases += read_figures(runner.options.booksim)
    for case in cases[:: QUICK if runner.options.quick else 1]:
        yield _row(case, runner)


def left_out(data: SuiteData, runner: Runner) -> str:
    """Why only recorded figures are compared."""
    if runner.options.booksim is not None:
        return ""
    return f"further figures of BookSim2: name a folder with {TABLE} by --booksim or KERNBENCH_BOOKSIM"


def read_figures(folder: Path) -> list[dict[str, Any]]:
    """The cases of a folder. InputError for a file that is missing or of another kind."""
    path = folder / TABLE
    if not os.path.isfile(path):
        raise InputError(Problem(str(path), no_file(path), remedy=f"its columns are {', '.join(COLUMNS)}"))
    found = []
    for number, row in enumerate(csv.DictReader(read_bounded(path, MAX_BYTES).decode("utf-8").splitlines())):
        where = f"{path}:{number + 2}"
        missing = [name for name in COLUMNS if row.get(name) is None]
        if missing:
            raise InputError(Problem(where, f"it has no column {missing[0]}", remedy=f"its columns are {', '.join(COLUMNS)}"))
        if row["traffic"] not in PATTERNS:
            raise InputError(Problem(where, f"it must be one of {', '.join(PATTERNS)}", "traffic", row["traffic"]))
        try:
            numbers = {name: int(row[name]) for name in ("k", "num_vcs", "packet_size")}
            found.append({"traffic": row["traffic"], **numbers, **{name: float(row[name]) for name in COLUMNS[-2:]}})
        except ValueError:
            raise InputError(
                Problem(where, "k, num_vcs and packet_size must be integers, and the other columns must be numbers")
            ) from None
    return found


def _network(case: dict[str, Any]) -> MeshSpec:
    return MeshSpec(columns=case["k"], rows=case["k"], channels=case["num_vcs"])


def _traffic(case: dict[str, Any], rate: float) -> Traffic:
    return Traffic(pattern=case["traffic"], flits=case["packet_size"], rate=rate)


@cache
def _saturation(k: int, traffic: str, num_vcs: int, packet_size: int) -> float:
    case = {"k": k, "traffic": traffic, "num_vcs": num_vcs, "packet_size": packet_size}
    return saturation(_network(case), _traffic(case, 0.1), Window(1000, 2000, 2000))


def _row(case: dict[str, Any], runner: Runner) -> Row:
    """`injection_rate` of BookSim2 counts packets."""
    net, flits = _network(case), case["packet_size"]
    rate = float(case["injection_rate"]) * flits
    if "noc" in runner.plant:
        cycles = ceil_div((1 + net.switch_cycles + net.link_cycles) * runner.plant["noc"], 1) - 1 - net.switch_cycles
        net = MeshSpec(columns=net.columns, rows=net.rows, channels=net.channels, link_cycles=cycles)
    window = Window(1000, 1500) if runner.options.quick else Window(3000, max(640_000 // net.nodes, 4000))
    ours = run_load(net, _traffic(case, rate), window).latency
    recorded = case.get("below")  # a recorded case was chosen below saturation
    limit = rate if recorded else BELOW * _saturation(net.columns, case["traffic"], net.channels, flits)
    judged = rate <= limit
    vcs, length = (f"{n} {unit}{'s' * (n > 1)}" for n, unit in ((net.channels, "VC"), (flits, "flit")))
    name = f"{net.columns}x{net.rows} {case['traffic']}, {vcs}, {length}, {rate:.4g} flits/node/cycle"
    return Row(
        case=name,
        source="booksim2",
        expected=case["latency"],
        ours=ours,
        unit="cycles",
        allowed=(2 * ALLOWED if runner.options.quick else ALLOWED) if judged else None,
        why=WHY if judged else PAST,
    )
