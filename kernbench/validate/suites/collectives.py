"""A ring all_reduce: close above its bound, and with the shape of one over NVLink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kernbench.config import SystemConfig, load_config
from kernbench.validate.forms import size_text
from kernbench.validate.ring import Ring
from kernbench.validate.stand import Stand
from kernbench.validate.suite import Figure, Row, Series, SuiteData

BOUND_WHY = "a range from the bound to a cycle a step more for its last byte, and one for each addition"
FITTED_WHY = "fitted: three constants for three sizes, up to what a cycle and four digits resolve"
SHAPE_WHY = "not fitted: one latency, one bandwidth and one time to add stand for all the protocols of a library"
TENTH, HUNDREDTH = Fraction(1, 10), Fraction(1, 100)
FAST = 1 << 20  #: elements a cycle: an addition takes one


def rows(data: SuiteData, stand: Stand) -> Iterator[Row]:
    """Bounds of several rings, then the sizes that were measured."""
    for ranks in data.fact("bound_ranks"):
        for nbytes in data.fact("bound_bytes"):
            yield _bounded(data, stand, int(ranks), int(nbytes))
    config = load_config(data.fact("machine"), kind=SystemConfig)
    line = Line(data, config, stand)
    for case in data.cases:
        fitted = bool(case.get("fitted", False))
        yield Row(
            case=f"4 A100, {size_text(int(case['bytes']))}",
            source="llmcompass",
            expected=Fraction(case["us"]),
            ours=line.us(int(case["bytes"])),
            unit="us",
            allowed=HUNDREDTH if fitted else TENTH,
            why=FITTED_WHY if fitted else SHAPE_WHY,
        )


def _bounded(data: SuiteData, stand: Stand, ranks: int, nbytes: int) -> Row:
    changed = {"system.sips": str(ranks), "pe.ve.lanes": str(FAST), "system.link.cycles": str(data.fact("bound_latency"))}
    config = load_config(data.fact("machine"), changed, kind=SystemConfig)
    ring = Ring(config, nbytes, nbytes)
    program = ring.program()
    alone = Stand().machine(program, config)  # its latency is the machine's own, whatever is planted
    latency = int(alone.plan.machine["route_latency"].max())
    steps = 2 * (ranks - 1)
    bound = steps * latency + Fraction(steps, ranks) * nbytes / config.system.link.bytes_per_cycle
    return Row(
        case=f"{ranks} ranks, {size_text(nbytes)}",
        source="bound",
        expected=(bound, bound + steps + ranks - 1),
        ours=stand.cycles(program, config),
        unit="cycles",
        allowed=0,
        why=BOUND_WHY,
    )


class Line:
    """Times by size: simulated, and from the second of two sizes on along the line through them."""

    def __init__(self, data: SuiteData, config: SystemConfig, stand: Stand) -> None:
        self.config, self.stand, self.chunk = config, stand, int(data.fact("chunk"))
        sizes = data.fact("simulated_quick" if stand.options.quick else "simulated")
        self.first, self.second = (int(nbytes) for nbytes in sizes)
        self.known: dict[int, Fraction] = {}

    def us(self, nbytes: int) -> Fraction:
        """Microseconds of an all_reduce."""
        if nbytes <= self.second:
            return self._simulated(nbytes)
        low, high = self._simulated(self.first), self._simulated(self.second)
        return high + (high - low) * (nbytes - self.second) / (self.second - self.first)

    def _simulated(self, nbytes: int) -> Fraction:
        if nbytes not in self.known:
            cycles = self.stand.cycles(Ring(self.config, nbytes, self.chunk, launched=True).program(), self.config)
            self.known[nbytes] = Fraction(cycles) / self.config.freq_ghz / 1000
        return self.known[nbytes]


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """Time over size, measured and simulated."""
    sizes = [float(case["bytes"]) for case in data.cases]
    timed = [row for row in rows if row.source == "llmcompass"]
    theirs = [(x, float(row.expected)) for x, row in zip(sizes, timed, strict=True) if not isinstance(row.expected, tuple)]
    ours = [(x, float(row.ours)) for x, row in zip(sizes, timed, strict=True)]
    series = [Series("simulated", ours, "line"), Series("measured", theirs)]
    return [Figure("all_reduce on four A100", "bytes", "us", series, log_x=True, log_y=True)]
