"""`kernbench.whatif`: the time of a run if a resource never limited it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernbench.analysis.whatif import Freed, WhatIf, what_if
from kernbench.api.answer import Answer, Row
from kernbench.api.arguments import check_list
from kernbench.api.targets import Config, Overrides, Target, case_of, machine_of
from kernbench.common.look.palette import colour
from kernbench.config.allowed_code import AllowCode


@dataclass(frozen=True, eq=False, repr=False)
class WhatIfs(Answer):
    """One run without changes, one run with each resource unlimited, and one run with all of them unlimited.

    `kernbench.whatif` returns it. The table of `to_frame` has one row for each resource, and one row for all resources
    together: `freed`, `status`, `cycles`, `saved` [cycle], and `share` (the saved share of the run).

    >>> import kernbench as kb
    >>> kb.whatif("llama2-7b-decode", config="npu_server").best
    'dram'
    """

    tables: ClassVar[tuple[str, ...]] = ("freed",)

    found: WhatIf
    target: str

    @property
    def cycles(self) -> int:
        """[cycle] The duration of the run without changes."""
        return self.found.base.cycles

    @property
    def best(self) -> str:
        """The resource that saves the most cycles when it alone is unlimited."""
        return self.found.best.resources[0]

    @property
    def levers(self) -> tuple[str, ...]:
        """The keys of the machine that decide the limit of `best`: `("dram.channels", "dram.peak_bw_bytes_per_cycle")`."""
        return self.found.levers

    @property
    def metrics(self) -> Row:
        """[cycle] The cycles that each unlimited resource saves; None if the run with this resource unlimited is not done."""
        return {one.resources[0]: one.saved for one in self.found.each}

    @property
    def headline(self) -> str:
        return f"{self.target}: {self.found.sentence}"

    def rows(self, table: str) -> list[Row]:
        together = [] if len(self.found.each) == 1 else [("all", self.found.all)]
        return [self._row(name, one) for name, one in [*((one.resources[0], one) for one in self.found.each), *together]]

    def _row(self, name: str, one: Freed) -> Row:
        share = one.saved / self.cycles if one.saved is not None and self.cycles else None
        return {"freed": name, "status": one.status, "cycles": one.cycles, "saved": one.saved, "share": share}

    def draw(self, ax: Any) -> None:
        """Draw one bar for the cycles that each resource saves."""
        rows = self.rows("freed")
        bars = ax.barh([row["freed"] for row in rows], [row["saved"] or 0 for row in rows], color=colour("accent"))
        ax.bar_label(bars, ["" if row["share"] is None else f"{row['share']:.0%}" for row in rows], padding=4)
        ax.invert_yaxis()
        ax.margins(x=0.1)
        ax.set_xlabel("cycles saved")
        ax.set_title(self.headline, fontsize="medium", loc="left")


def whatif(
    target: Target,
    config: Config | None = None,
    overrides: Overrides = (),
    *,
    free: Sequence[str] = (),
    allow_code: AllowCode = (),
    **params: Any,
) -> WhatIfs:
    """Run a target once more for each resource, with this resource unlimited: `dma`, `noc`, `dram`, `banks`, `te`, `ve`.

    - `target`: the same as in `run`, or the name of a language model (`llama3-8b`), its `config.json`, or an ONNX file.
    - `config`: the machine. The default is the machine that a bench names, otherwise `npu_server`.
    - `params`: parameters of the target. The parameters of a bench are its own. A language model has the parameters `prompt`,
      `tokens`, `batch`, `layers`, `w`, `a`, `kv`, `page`, `tp` and `phase` of `kernbench.llm`. A graph has `w`, `a` and its
      dynamic dimensions.
    - `free`: the resources to make unlimited; by default all of them.
    - `overrides` and `allow_code`: the same as in `run`.

    The function raises InputError in the same cases as `run`, and for an unknown resource.

    >>> import kernbench as kb
    >>> kb.whatif("llama2-7b-decode", free=["te"]).to_frame().columns
    ['freed', 'status', 'cycles', 'saved', 'share']
    >>> kb.whatif("gemm", config="npu_server", m=256, n=256, k=256, free=["te", "dram"]).best
    'te'
    """
    check_list("free", free, "a list of resources")
    case = case_of(target, params, allow_code=allow_code, function=whatif)
    machine = machine_of(config or case.machine, overrides, allow_code=allow_code)
    return WhatIfs(what_if(case.on(machine), list(free)), case.name)
