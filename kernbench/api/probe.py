"""`kernbench.probe`: latency and bandwidth of the links of a system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernbench.analysis.probe import ProbeRow, probe_names, probe_sizes
from kernbench.analysis.probe import probe as run_probe
from kernbench.api.answer import Answer, Row
from kernbench.api.arguments import check_list, names_checked
from kernbench.api.targets import Config, Overrides, machine_of
from kernbench.config.allowed_code import AllowCode
from kernbench.config.kinds import a_system

DEFAULT_SYSTEM = "single_cube"
SIZES = ("4KiB", "16KiB", "64KiB", "256KiB", "1MiB")


@dataclass(frozen=True, eq=False, repr=False)
class ProbeResult(Answer):
    """The latency and bandwidth of every pattern at every size, as `kernbench.probe` returns them.

    The table of `to_frame` has one row for each pattern and size: `pattern`, `bytes` of each transfer, `transfers`, `cycles`
    (the sum of `setup`, `links` and `transfer`) of the longest transfer [cycle], `bandwidth` [B/cycle], `bottleneck`, and the
    `capacity` [B/cycle] and `utilisation` (a share of 1) of the bottleneck.

    >>> import kernbench as kb
    >>> kb.probe("single_cube", sizes=["4KiB"]).to_frame()["cycles"].min() > 0
    True
    """

    tables: ClassVar[tuple[str, ...]] = ("patterns",)

    machine: str
    found: tuple[ProbeRow, ...]

    @property
    def metrics(self) -> Row:
        """The highest bandwidth [B/cycle] of each pattern."""
        best: Row = {}
        for row in self.found:
            best[row.pattern] = max(best.get(row.pattern, 0.0), float(row.bandwidth))
        return best

    @property
    def headline(self) -> str:
        best = self.metrics
        if not best:
            return f"{self.machine}: no size fits into a scratchpad and a slice of HBM"
        name = max(best, key=lambda pattern: best[pattern])
        return f"{self.machine}: {len(best)} patterns; the highest bandwidth is that of {name}, {best[name]:,.4g} B/cycle"

    def rows(self, table: str) -> list[Row]:
        exact = ("bandwidth", "capacity", "utilisation")
        found = [{name: getattr(row, name) for name in ProbeRow.__slots__} for row in self.found]
        return [row | {name: float(row[name]) for name in exact} for row in found]

    def draw(self, ax: Any) -> None:
        """Draw the bandwidth over the size, with one line for each pattern."""
        for pattern in self.metrics:
            some = [row for row in self.found if row.pattern == pattern]
            ax.plot([row.bytes for row in some], [float(row.bandwidth) for row in some], marker="o", label=pattern)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xlabel("bytes of a transfer")
        ax.set_ylabel("B/cycle")
        ax.legend(fontsize="small")
        ax.set_title(self.machine, fontsize="medium", loc="left")


@names_checked
def probe(
    config: Config = DEFAULT_SYSTEM,
    overrides: Overrides = (),
    *,
    sizes: Sequence[int | str] = SIZES,
    only: Sequence[str] = (),
    allow_code: AllowCode = (),
) -> ProbeResult:
    """Measure a system with host copies, loads from near and far memories, sends, and simultaneous loads of all PEs.

    - `sizes`: the sizes of the transfers, in bytes or as text (`4KiB`).
    - `only`: the names of the patterns to run; by default all of them.
    - `config`, `overrides` and `allow_code`: the same as in `run`.

    The function raises InputError for a machine that is not a system, for a size that is not valid, and for a pattern that the
    system does not have.

    >>> import kernbench as kb
    >>> sorted(kb.probe(sizes=[4096], only=["own_hbm", "host_to_device"]).metrics)
    ['host_to_device', 'own_hbm']
    """
    check_list("sizes", sizes, "a list of sizes")
    check_list("only", only, "a list of patterns")
    machine = machine_of(config, overrides, allow_code=allow_code)
    system = a_system("kernbench.probe", machine, "only the links of a system can be measured")
    wanted = [size for one in sizes for size in probe_sizes(str(one))]
    return ProbeResult(system.source, tuple(run_probe(system, wanted, probe_names(system, ",".join(only)))))
