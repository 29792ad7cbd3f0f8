"""`kernbench.whatif`: what a program would take if a resource never limited it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernbench.analysis.whatif import Freed, WhatIf, what_if
from kernbench.api.answer import Answer, Row
from kernbench.api.targets import DEFAULT_MACHINE, Config, Overrides, Target, machine_of, name_of, program_of
from kernbench.common.look.palette import colour
from kernbench.config.allowed_code import AllowCode


@dataclass(frozen=True, eq=False, repr=False)
class WhatIfs(Answer):
    """A run as it is, with each resource freed, and with all of them freed. `kernbench.whatif` makes it.

    The table of `to_frame`: a row a resource, and one for all together: `freed`, `status`, `cycles`, `saved` [cycle], `share`
    of the run that is saved.

    >>> import kernbench as kb
    >>> kb.whatif("llama2-7b-decode", config="npu_server").best
    'dram'
    """

    tables: ClassVar[tuple[str, ...]] = ("freed",)

    found: WhatIf
    target: str

    @property
    def cycles(self) -> int:
        """[cycle] of the run as it is."""
        return self.found.result.cycles

    @property
    def best(self) -> str:
        """The resource that saves most by itself."""
        return max(self.found.each, key=lambda one: one.saved or 0).resources[0]

    @property
    def metrics(self) -> Row:
        """[cycle] saved by each resource; None where a run is not done."""
        return {one.resources[0]: one.saved for one in self.found.each}

    @property
    def headline(self) -> str:
        saved = self.metrics[self.best] or 0
        if saved <= 0:
            return f"{self.target}: no resource by itself saves a cycle of {self.cycles:,}"
        least = f"{saved:,} of {self.cycles:,} cycles ({saved / self.cycles:.0%})"
        return f"{self.target}: change {self.best} first: without its limits the run takes {least} less"

    def rows(self, table: str) -> list[Row]:
        together = [] if len(self.found.each) == 1 else [("all", self.found.all)]
        return [self._row(name, one) for name, one in [*((one.resources[0], one) for one in self.found.each), *together]]

    def _row(self, name: str, one: Freed) -> Row:
        share = one.saved / self.cycles if one.saved is not None and self.cycles else None
        return {"freed": name, "status": one.status, "cycles": one.cycles, "saved": one.saved, "share": share}

    def draw(self, ax: Any) -> None:
        """A bar a resource: cycles saved."""
        rows = self.rows("freed")
        bars = ax.barh([row["freed"] for row in rows], [row["saved"] or 0 for row in rows], color=colour("accent"))
        ax.bar_label(bars, ["" if row["share"] is None else f"{row['share']:.0%}" for row in rows], padding=4)
        ax.invert_yaxis()
        ax.margins(x=0.1)
        ax.set_xlabel("cycles saved")
        ax.set_title(self.headline, fontsize="medium", loc="left")


def whatif(
    target: Target,
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = (),
    *,
    free: Sequence[str] = (),
    allow_code: AllowCode = (),
) -> WhatIfs:
    """Run a program again with one resource unlimited at a time: `dma`, `noc`, `dram`, `banks`, `te`, `ve`.

    `target`: a workload, a file, a `Program` or a dict. `free`: the resources, by default all. InputError as of `run`, for a
    bench, and for an unknown resource.

    >>> import kernbench as kb
    >>> kb.whatif("llama2-7b-decode", free=["te"]).to_frame().columns
    ['freed', 'status', 'cycles', 'saved', 'share']
    """
    machine = machine_of(config, overrides, allow_code=allow_code)
    return WhatIfs(what_if(program_of(target, machine), machine, list(free)), name_of(target))  # type: ignore[arg-type]
