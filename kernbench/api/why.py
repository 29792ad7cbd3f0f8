"""`kernbench.why`: the causes of the cycles of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from kernbench.api.answer import Answer, Row, html_block, html_table
from kernbench.api.run import Run, run
from kernbench.api.targets import Config, Overrides, Target
from kernbench.common.look.palette import colour, resource_of
from kernbench.config.allowed_code import AllowCode
from kernbench.trace.reader import open_trace
from kernbench.trace.why import Why, explain

TRACES = (".jsonl", ".gz", ".zst")  #: suffixes of trace files


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Answer):
    """The critical path of a run, with its cycles grouped by cause. `kernbench.why` and `Run.why` return it.

    Tables of `to_frame`: `groups` (`name`, `resources`, `cycles`, `share` of the run; the shares add up to 1) and `costs` (the
    same columns for each cause and resource, and the number of `commands`).

    >>> import kernbench as kb
    >>> kb.run("gemm", config="npu_server").why().sentence.startswith("69% of the run is TE work")
    True
    """

    tables: ClassVar[tuple[str, ...]] = ("groups", "costs")

    found: Why  #: the explanation with the critical path, and `story(op)` for every command
    target: str
    machine: str

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self.found.sentence

    @property
    def cycles(self) -> int:
        """[cycle] The duration of the run."""
        return self.found.history.cycles

    @property
    def headline(self) -> str:
        return f"{self.target} on {self.machine}: {self.sentence}"

    @property
    def metrics(self) -> Row:
        """[cycle] The cycles of each group, the highest first. The groups add up to the cycles of the run."""
        return {group.name: float(group.cycles) for group in self.found.groups}

    def rows(self, table: str) -> list[Row]:
        whole = self.cycles or 1
        if table == "groups":
            return [
                {"name": one.name, "resources": ", ".join(one.resources), "cycles": float(one.cycles),
                 "share": float(one.cycles / whole)}
                for one in self.found.groups
            ]  # fmt: skip
        return [
            {"cause": one.cause, "resource": one.resource, "cycles": float(one.cycles), "share": float(one.cycles / whole),
             "commands": one.commands}
            for one in self.found.costs
        ]  # fmt: skip

    def draw(self, ax: Any) -> None:
        """Draw the run as a stacked bar of its groups."""
        left = 0.0
        for row in self.rows("groups"):
            label = f"{row['name']} {row['share']:.0%}" if row["share"] >= 0.005 else None
            look = {"color": colour(resource_of(row["name"])), "edgecolor": colour("card"), "height": 0.5}
            ax.barh([0], [row["cycles"]], left=left, label=label, **look)
            left += row["cycles"]
        ax.set_xlim(0, max(1, self.cycles))
        ax.set_yticks([])
        ax.set_xlabel("cycle")
        ax.legend(ncols=2, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
        ax.set_title(f"{self.target} on {self.machine}", fontsize="medium", loc="left")

    def _repr_html_(self) -> str:
        from kernbench.api.notebook import answer_bar

        head = f"<p>{escape(self.target)} on {escape(self.machine)}</p><p><b>{escape(self.sentence)}</b></p>"
        return html_block(head, answer_bar(self), html_table(self.rows("groups")))


def why(
    target: Target | Run,
    config: Config | None = None,
    overrides: Overrides = (),
    *,
    allow_code: AllowCode = (),
    **params: Any,
) -> Explanation:
    """Explain the cycles of a run, of a trace with the level `full` (.jsonl, .jsonl.gz, .jsonl.zst), or of a target.

    - `target`: a `Run`, the file of a trace, or the same as in `run`. A target is run with a trace.
    - `config`, `overrides`, `allow_code` and `params`: the same as in `run`, for a target.

    The function raises InputError in the same cases as `run`, and for a trace that lacks events.

    >>> import kernbench as kb
    >>> kb.why("gemm", config="npu_server").to_frame()["share"].sum() > 0.999
    True
    """
    if isinstance(target, Run):
        return target.why()
    if isinstance(target, (str, os.PathLike)) and os.fspath(target).endswith(TRACES):
        return explained(Path(target), Path(target).name)
    return run(target, config, overrides, allow_code=allow_code, **params).why()


def explained(path: Path, target: str, machine: str = "") -> Explanation:
    """The explanation of a trace file."""
    trace = open_trace(path)
    return Explanation(explain(trace), target, machine or str(trace.meta.config_hash or "")[:12] or "its machine")
