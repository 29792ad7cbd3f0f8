"""A fit of a few named constants to measured rows, by robust least squares of the logarithm of times.

A constant is a value of the machine's file (`dram.peak_bw_bytes_per_cycle`), or of the runtime profile
(`runtime.ops.matmul.start_ns`). Each constant is varied as a factor of its value in the file, so that all constants are fitted
on the same scale. A constant that is 0 in the file starts from its `begin`.

The values of the file count like a few rows, whatever the number of rows. A constant on which no row depends therefore keeps
its value. For a constant that many rows determine, the value of the file hardly matters. The cost of a change grows only with
its logarithm, so that a change that the rows demand is not kept small, and other constants do not have to make up for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, inf, isfinite, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from kernbench.config import NpuConfig
from kernbench.config.runtime import Runtime
from kernbench.workloads.ops.operation import Attention, Collective, Product, Vector
from kernbench.workloads.ops.timing import OperationTimer

if TYPE_CHECKING:
    from kernbench.analysis.chips.cases import Case

WIDEST = 20.0  #: largest factor by which a constant may change
SOFT = 0.1  #: residuals of the logarithm above this value count less than by their square
STEPS = 60  #: limit of evaluations of the residuals, not counting those for derivatives
ROUGH = 1e-3  #: least relative improvement of a step of a rough fit, and least relative change of a constant
UNMOVED = 1e-3  #: if the root mean square of a constant's derivatives is below this value, the rows do not determine it
#: How far a constant may be from the value of the file, as a logarithm. Calibrated chips and profiles differ by about as much:
#: the shares of rated rates least, times of software most.
SPREADS = {
    "dram.peak_bw_bytes_per_cycle": 0.15,
    "te.macs_per_cycle": 0.15,
    "chip.links_share": 0.15,
    "chip.cache_bytes_per_cycle": 0.3,
    "chip.stream_bytes_per_cycle": 0.3,
    "chip.link_latency_ns": 0.3,
    "chip.attention_key_cycles": 0.3,
}
SPREAD = 0.5  #: of every other constant
STAYS = 0.1  #: a constant with the widest interval keeps its value if it would move by less than this share of its spread
KNOWN = 64  #: remembered estimates of a row
CLOCK_ABOVE = 1.2  #: highest clock of a card over the rated clock: assumed
#: step of numerical derivatives in the logarithm; not smaller, because the choice of plans gives the residuals small jumps
FINE = 0.01


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that may be fitted."""

    path: str
    unit: str
    meaning: str
    begin: float = 0.0  #: starting value for a constant that is 0 in the file


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted constant, and its uncertainty."""

    constant: Constant
    before: float
    value: float
    low: float  #: lower end of the 95 % interval
    high: float

    def in_part(self, share: float) -> Fitted:
        """The constant after a share of the way from its value in the file, as a logarithm; from 0, the way is linear."""
        if share == 1 or self.value == self.before:
            return self
        value = self.before ** (1 - share) * self.value**share if self.before else share * self.value
        return Fitted(self.constant, self.before, value, min(self.low, value), max(self.high, value))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        one = self.constant
        return {
            "path": one.path, "unit": one.unit, "meaning": one.meaning, "before": self.before, "value": self.value,
            "low": self.low, "high": self.high,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of a fit."""

    machine: NpuConfig
    runtime: Runtime
    constants: list[Fitted]
    errors: list[float] = field(default_factory=list)  #: relative, by row

    @property
    def median(self) -> float:
        """Median of the relative errors."""
        return median(self.errors)

    @property
    def mean(self) -> float:
        """Mean of the relative errors."""
        return fmean(self.errors)


def value_at(machine: NpuConfig, runtime: Runtime, path: str) -> float:
    """The value at a path; for a host time without a key of its own, that of its group or the profile's `default`."""
    value: Any = runtime if path.startswith("runtime.") else machine
    for step in path.removeprefix("runtime.").split("."):
        if isinstance(value, Mapping):
            key = runtime.call(value, step, step) if step not in value and "default" in value else step
            value = value.get(int(key) if key.isdigit() else key)
        else:
            value = getattr(value, step)
        if value is None:
            return 0.0
    return float(value)


def with_values(machine: NpuConfig, runtime: Runtime, values: Mapping[str, float]) -> tuple[NpuConfig, Runtime]:
    """The machine and the profile with some values replaced."""
    of_machine = {path: value for path, value in values.items() if not path.startswith("runtime.")}
    of_runtime = {path.removeprefix("runtime."): value for path, value in values.items() if path.startswith("runtime.")}
    return _replaced(machine, of_machine), _replaced(runtime, of_runtime)


def _replaced(model: Any, values: Mapping[str, float]) -> Any:
    by_head: dict[str, dict[str, float]] = {}
    update: dict[str, Any] = {}
    for path, value in values.items():
        head, _, rest = path.partition(".")
        if rest:
            by_head.setdefault(head, {})[rest] = value
        else:
            update[head] = _typed(model, head, value)
    for head, some in by_head.items():
        part = (
            model[head]
            if isinstance(model, Mapping) and head in model
            else None
            if isinstance(model, Mapping)
            else getattr(model, head)
        )
        if part is None:
            from kernbench.config.runtime import OpCost

            part = OpCost()
        update[head] = _replaced(part, some)
    if isinstance(model, Mapping):
        return {**model, **update}
    return model.model_copy(update=update)


def _typed(model: Any, name: str, value: float) -> Any:
    before = model.get(name) if isinstance(model, Mapping) else getattr(model, name)
    if isinstance(before, int) and not isinstance(before, bool):
        return max(0, round(value))
    return Fraction(f"{value:.6g}")


def predictions(cases: Iterable[Case], machine: NpuConfig, runtime: Runtime, *, simulate: bool = False) -> list[float]:
    """The figures of the simulator, or of its estimate, for each row."""
    timer = OperationTimer(machine, runtime, simulate=simulate)
    return [case.ask(timer) for case in cases]


def relative_errors(cases: Sequence[Case], found: Sequence[float]) -> list[float]:
    """|ours - measured| / measured."""
    return [abs(ours - case.measured) / case.measured for case, ours in zip(cases, found, strict=True)]


def fit(
    cases: Sequence[Case], machine: NpuConfig, runtime: Runtime, constants: Sequence[Constant], *,
    rough: bool = False,
) -> Fit:  # fmt: skip
    """Find the constants for which the estimates are nearest to the rows.

    `rough`: stop as soon as a step improves the fit by less than 0.1 %.
    """
    import numpy as np
    from scipy.optimize import least_squares

    rows = _Rows(cases, machine, runtime, constants)
    highest = [1 + _widest(machine, one.path, start) for one, start in zip(constants, rows.begin, strict=True)]
    lowest = 1 - log(WIDEST)
    count, spreads = len(cases), [SPREADS.get(one.path, SPREAD) for one in constants]

    def residuals(factors: Any) -> Any:
        return np.array([*rows.logarithms(factors), *map(_prior, rows.before, factors, spreads)])

    def loss(squares: Any) -> Any:
        """A soft absolute value of rows; the logarithm of the square of changes."""
        far, moved = 1 + squares[:count] / SOFT**2, 1 + squares[count:]
        return np.array([
            [*2 * (np.sqrt(far) - 1), *np.log(moved)],
            [*far**-0.5 / SOFT**2, *1 / moved],
            [*-0.5 * far**-1.5 / SOFT**4, *-1 / moved**2],
        ])  # fmt: skip

    first = [min(1.0, top - FINE / 2) for top in highest]
    near = {"ftol": ROUGH, "xtol": ROUGH} if rough else {}
    solved = least_squares(
        residuals, np.array(first), bounds=(lowest, highest), loss=loss, diff_step=FINE, x_scale=1.0, max_nfev=STEPS, **near
    )
    slopes = SOFT * solved.jac[:count]  # scipy multiplies them by the root of the slope of the loss, which is 1 / SOFT at 0
    spread = _spread(slopes, residuals(solved.x)[:count])
    fitted = []
    for one, was, start, factor, wide, usual in zip(
        constants, rows.before, rows.begin, solved.x, spread, spreads, strict=True
    ):
        middle = factor - 1  # least_squares takes steps relative to its variable, so the variable must not start at 0
        most = min(wide, log(WIDEST))
        determined = wide < log(WIDEST) or (isfinite(wide) and abs(middle) > STAYS * usual)
        value, low, high = (start * exp(middle + side) for side in (0, -most, most))
        fitted.append(Fitted(one, was, value if determined else was, low, high))
    machine, runtime = with_values(machine, runtime, {one.constant.path: one.value for one in fitted})
    found = predictions(cases, machine, runtime)
    return Fit(machine, runtime, fitted, relative_errors(cases, found))


class _Rows:
    """The logarithms of estimates over measured times. The estimate of a row is computed again only if a constant changes that
    the row looks up."""

    def __init__(self, cases: Sequence[Case], machine: NpuConfig, runtime: Runtime, constants: Sequence[Constant]) -> None:
        self.before = [value_at(machine, runtime, one.path) for one in constants]
        self.begin = [value or one.begin for value, one in zip(self.before, constants, strict=True)]
        self._of = cases, machine, runtime, constants
        self._used = [[i for i, one in enumerate(constants) if looks_up(case, one.path, machine, runtime)] for case in cases]
        self._known: list[dict[tuple[float, ...], float]] = [{} for _ in cases]

    def logarithms(self, factors: Sequence[float]) -> list[float]:
        """One for each row. `factors`: 1 + the logarithm of each constant over its begin."""
        cases, machine, runtime, constants = self._of
        values = {one.path: start * exp(factor - 1) for one, start, factor in zip(constants, self.begin, factors, strict=True)}
        timer = OperationTimer(*with_values(machine, runtime, values), simulate=False)
        found = []
        for case, used, known in zip(cases, self._used, self._known, strict=True):
            key = tuple(float(factors[i]) for i in used)
            if key not in known:
                if len(known) >= KNOWN:
                    known.clear()
                known[key] = log(max(case.ask(timer), 1e-12) / case.measured)
            found.append(known[key])
        return found


#: The kind of operation that looks up a constant of the machine, by the beginning of its path; streams: all but collectives.
_USERS: dict[str, tuple[type, ...]] = {
    "dram.": (Product, Attention, Vector),
    "chip.cache_bytes_per_cycle": (Product,),
    "chip.stream_bytes_per_cycle": (Vector, Attention),
    "chip.attention": (Attention,),
    "runtime.attention": (Attention,),
    "chip.link": (Collective,),
    "chip.nic": (Collective,),
    "chip.network": (Collective,),
}


def looks_up(case: Case, path: str, machine: NpuConfig, runtime: Runtime) -> bool:
    """Whether the time of a row may depend on a constant. If not, no value of the constant changes the time."""
    op = case.operation
    if op is None:
        return True
    table, _, rest = path.removeprefix("runtime.").partition(".")
    if path.startswith("te."):  # attention on a GPU runs at the rated rate of products
        gpu = machine.chip is not None and machine.chip.kind == "gpu"
        return isinstance(op, Product) or (isinstance(op, Attention) and not gpu)
    if path.startswith("runtime.") and case.traced:  # it has the values of another profile
        return False
    if path.startswith("runtime.") and table in ("ops", "launch_ns"):
        return rest.split(".")[0] == (ops_key if table == "ops" else launch_key)(runtime, op.name, op.kind)
    return next((isinstance(op, users) for start, users in _USERS.items() if path.startswith(start)), True)


def ops_key(runtime: Runtime, name: str, kind: str) -> str:
    """The key of a profile's `ops` for an operation: its name if it is there, else its class, which may be added."""
    return name if name in runtime.ops else kind


def launch_key(runtime: Runtime, name: str, kind: str) -> str:
    """The key of a profile's `launch_ns` to which the launches of an operation are fitted.

    A class gets a key of its own instead of `default`, and an operation instead of a group of `called_as`: operations of other
    classes keep their value.
    """
    key = runtime.call(runtime.launch_ns, name, kind)
    return {"default": kind, runtime.called_as.get(name, ""): name}.get(key, key)


def _widest(machine: NpuConfig, path: str, begin: float) -> float:
    """By how much the logarithm of a constant may increase: no chip sustains more than its rated rates."""
    most = _rated(machine).get(path)
    return min(log(WIDEST), max(FINE, log(most / begin))) if most and begin else log(WIDEST)


def _rated(machine: NpuConfig) -> dict[str, float]:
    """The largest values of sustained rates, by path."""
    chip = machine.chip
    if chip is None:
        return {}
    return {
        "dram.peak_bw_bytes_per_cycle": float(chip.rated_memory_gb_s / machine.freq_ghz / machine.dram.channels),
        "te.macs_per_cycle": CLOCK_ABOVE * chip.cores * float(chip.macs(8)) / machine.te.engines,
        "chip.links_share": 1.0,
    }


def _prior(before: float, factor: float, spread: float) -> float:
    """How far a constant is from the value of the file, in spreads. `before`: that value; from 0, the distance is linear."""
    return (factor - 1) / spread if before else exp(factor - 1)


def _spread(jacobian: Any, residuals: Any) -> list[float]:
    """Half the width of the 95 % interval of each factor's logarithm: Student's t on the linearised problem. Infinite for a
    constant that the rows do not determine.

    The scale is the median absolute deviation, which a few outliers do not change.
    """
    import numpy as np
    from scipy.stats import t

    rows, count = jacobian.shape
    free = max(1, rows - count)
    scale = 1.4826 * float(np.median(np.abs(residuals)))
    normal = jacobian.T @ jacobian
    covariance = np.linalg.pinv(normal) * scale**2
    quantile = float(t.ppf(0.975, free))
    decided = np.diag(normal) > UNMOVED**2 * rows
    widths = [quantile * float(np.sqrt(max(0.0, covariance[i, i]))) for i in range(count)]
    return [width if some else inf for width, some in zip(widths, decided, strict=True)]
