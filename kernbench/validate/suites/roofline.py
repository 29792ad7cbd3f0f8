"""Matrix products on a machine with an A100's datasheet: where bandwidth ends to bind and arithmetic begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kernbench.config import NpuConfig, load_config
from kernbench.validate.gemm import Gemm, best_tile, gemm_program
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, Series, SuiteData

TIME_WHY = "for information: a datasheet has peaks, but no launches, latencies or sustained bandwidth"
KNEE_WHY = "the octave, between two powers of two, in which the measured times bend"


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """The time of each product, then the M at which the time of the smallest meets the slope of the largest."""
    machine: NpuConfig = load_config(data.fact("machine"), kind=NpuConfig)
    measured, ours = [], []
    for case in data.cases:
        if runner.options.quick and case["m"] not in data.fact("quick"):
            continue
        m, ms = int(case["m"]), Fraction(case["ms"])
        took = _ms(m, data, machine, runner)
        measured.append((m, ms))
        ours.append((m, took))
        yield Row(case=f"M {m}", source="llmcompass", expected=ms, ours=took, unit="ms", allowed=None, why=TIME_WHY)
    low = 1 << int(knee(measured)).bit_length() - 1
    octave = (low, 2 * low - 1)
    yield Row(case="knee", source="llmcompass", expected=octave, ours=knee(ours), unit="rows", allowed=0, why=KNEE_WHY)


def _ms(m: int, data: SuiteData, machine: NpuConfig, runner: Runner) -> Fraction:
    n, k = int(data.fact("n")), int(data.fact("k"))
    tiles = [(int(rows), int(cols)) for rows, cols in data.fact("tiles")]
    gemm = Gemm(m, n, k, best_tile(m, n, tiles, machine.te.engines))
    return Fraction(runner.cycles(gemm_program(gemm, machine), machine)) / machine.freq_ghz / 10**6


def knee(times: Sequence[tuple[int, Fraction]]) -> Fraction:
    """Rows at which the largest product's time a row adds up to the smallest product's time."""
    (_, least), (m, most) = times[0], times[-1]
    return least / (most / m)


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """The time over M for both, and the prediction of the datasheet."""
    timed = [(float(row.case.split()[1]), row) for row in rows if row.unit == "ms"]
    machine: NpuConfig = load_config(data.fact("machine"), kind=NpuConfig)
    macs = machine.te.rate(16, 16) * machine.te.engines
    roof = [(m, float(_roof(m, data, machine, macs))) for m, _ in timed]
    theirs = [(m, float(row.expected)) for m, row in timed if not isinstance(row.expected, tuple)]
    ours = [(m, float(row.ours)) for m, row in timed]
    series = [Series("roofline of the datasheet", roof, "line"), Series("measured", theirs), Series("simulated", ours)]
    return [Figure(data.title, "M", "ms", series, log_x=True, log_y=True)]


def _roof(m: float, data: SuiteData, machine: NpuConfig, macs: Fraction) -> Fraction:
    n, k = int(data.fact("n")), int(data.fact("k"))
    nbytes = 2 * (Fraction(m) * k + n * k + Fraction(m) * n)
    cycles = max(Fraction(m) * n * k / macs, nbytes / (machine.dram.capacity * machine.dram.channels))
    return cycles / machine.freq_ghz / 10**6
