"""Two models that the simulator should beat: the plain roofline, and three numbers fitted to the same table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernbench.analysis.chips.cases import Case


@dataclass(frozen=True, slots=True)
class ThreeNumbers:
    """The time of each kernel launch, the share of the peak rate, and the share of the bandwidth."""

    kernel: float  #: in the unit of the table's times
    peak_share: float
    bandwidth_share: float

    def took(self, case: Case) -> float:
        """The predicted time of a row."""
        return self.kernel + max(case.compute_us / self.peak_share, case.memory_us / self.bandwidth_share)


def roofline_errors(cases: Sequence[Case]) -> list[float]:
    """Relative errors of the roofline of the table."""
    return [abs(case.roofline - case.measured) / case.measured for case in cases if case.roofline]


def three_numbers(cases: Sequence[Case]) -> ThreeNumbers:
    """The three numbers with the least sum of absolute logarithmic errors, found from several starting points."""
    import numpy as np
    from scipy.optimize import minimize

    took = np.array([case.took for case in cases])
    compute = np.array([case.compute_us for case in cases])
    memory = np.array([case.memory_us for case in cases])
    smallest = float(took.min())

    def loss(logs: np.ndarray) -> float:
        kernel, peak, band = np.exp(np.clip(logs, -30, 30))
        ours = kernel + np.maximum(compute / peak, memory / band)
        return float(np.mean(np.abs(np.log(ours / took))))

    starts = [np.log([smallest * share, peak, band]) for share in (0.9, 0.1) for peak in (0.9, 0.5) for band in (0.8, 0.3)]
    best = min((minimize(loss, start, method="Nelder-Mead", options={"maxiter": 600}) for start in starts), key=lambda r: r.fun)
    kernel, peak, band = (float(value) for value in np.exp(best.x))
    return ThreeNumbers(kernel, peak, band)


def three_number_errors(cases: Sequence[Case], numbers: ThreeNumbers) -> list[float]:
    """Relative errors; errors of rates if the table has rates."""
    found = []
    for case in cases:
        took = numbers.took(case)
        ours = 1 / took if case.rate else took
        found.append(abs(ours - case.measured) / case.measured)
    return found


def middle(errors: Sequence[float]) -> float | None:
    """The median, or None without values."""
    return median(errors) if errors else None
