"""A mesh under uniform and transpose traffic, beside a flit-level simulator."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from kernbench.analysis.noc.fluid import fluid_latency
from kernbench.analysis.noc.mesh import Load, mean_latency
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, Series, SuiteData

SATURATES = "theory gives the upper end; a switch that is matched once a cycle stays below it"
FLUID = "for information: a flow occupies its whole route at once, so shared bandwidth saturates long before a mesh of routers"


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Latencies at the published rates, the saturation rate, and the latencies of flows over whole routes."""
    slower = Fraction(runner.plant.get("noc", 1))
    simulated = partial(mean_latency, slower=slower)
    known: dict[tuple[str, float], float] = {}
    for case in data.cases:
        if runner.options.quick and not case.get("quick"):
            continue
        latency = known[case["pattern"], float(case["rate"])] = simulated(_load(case, quick=runner.options.quick))
        yield _row(case, latency)
    if runner.options.quick:
        return
    for pattern, ends in (("uniform", data.fact("uniform")), ("transpose", data.fact("transpose"))):
        ours = _saturation(data, pattern, simulated, known)
        name = f"{pattern}: saturates at"
        yield Row(case=name, source="theory", expected=tuple(ends), ours=ours, unit="flits/cycle", allowed=0, why=SATURATES)
    for pattern, rates in data.fact("fluid").items():
        for rate in rates:
            base = next(case for case in data.cases if case["pattern"] == pattern and case["rate"] >= rate)
            ours = fluid_latency(Load(pattern=pattern, rate=float(rate), warmup=500, until=1500))
            name = f"{pattern} at {float(rate):g}, flows over whole routes"
            yield Row(case=name, source="booksim2", expected=base["latency"], ours=ours, unit="cycles", allowed=None, why=FLUID)


def _load(case: dict[str, Any], *, quick: bool) -> Load:
    until, warmup = int(case.get("until", 3000)), int(case.get("warmup", 1000))
    if quick:
        until, warmup = 1300, 300
    return Load(pattern=case["pattern"], rate=float(case["rate"]), warmup=warmup, until=until)


def _row(case: dict[str, Any], latency: float) -> Row:
    return Row(
        case=f"{case['pattern']} at {float(case['rate']):g}",
        source="booksim2",
        expected=case["latency"],
        ours=latency,
        unit="cycles",
        allowed=case.get("allowed"),
        why=case["why"],
    )


def _saturation(data: SuiteData, pattern: Any, simulated: Any, known: dict[tuple[str, float], float]) -> float:
    """The first of the rates at which the latency has tripled; 1 where it never has."""
    limit = float(data.fact("saturated") * data.fact("alone"))
    times = {name: int(cycles) for name, cycles in data.fact("measured")[pattern].items()}
    for rate in map(float, data.fact("rates")[pattern]):
        if (pattern, rate) not in known:
            known[pattern, rate] = simulated(Load(pattern=pattern, rate=rate, **times))
        if known[pattern, rate] > limit:
            return rate
    return 1.0


def figures(data: SuiteData, rows: list[Row]) -> list[Figure]:
    """Latency over load, measured and simulated."""
    out = []
    for pattern in ("uniform", "transpose"):
        of = [(case, row) for case in data.cases for row in rows if row.case == f"{pattern} at {float(case['rate']):g}"]
        theirs = [(float(case["rate"]), float(case["latency"])) for case, _ in of if case["pattern"] == pattern]
        ours = [(float(case["rate"]), float(row.ours)) for case, row in of if case["pattern"] == pattern]
        lines = [Series("BookSim2", theirs, "points"), Series("simulated", ours, "line")]
        title = f"8 x 8 mesh, {pattern} traffic"
        out.append(Figure(title, "flits per node and cycle", "mean latency [cycle]", lines, log_y=True))
    return out
