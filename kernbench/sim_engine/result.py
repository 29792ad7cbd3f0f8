"""What a run gave: the object of docs/model/formats.md, section Result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.common.extras import Library, frame_of, new_axes

MODEL_VERSION = 1  #: of the timing rules: a change of a cycle changes it


@dataclass(frozen=True, slots=True)
class EntryTimes:
    """When an entry was issued, started and ended [cycle]; None for what has not come. Control entries: all three alike."""

    id: int
    opcode: str
    issue: int | None
    start: int | None
    end: int | None

    @property
    def cycles(self) -> int | None:
        """[cycle] From start to end; None where one has not come."""
        return None if self.start is None or self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The outcome of one run, or of a run so far (`status` is then `running`).

    `counters` are those of docs/model/counters.md, by the names of docs/model/formats.md. `metrics` is derived from them:
    `bounds`, `energy_pj`.
    """

    status: str  #: done, aborted, deadlock, failed, or running
    cycles: int  #: cycles run
    t_ns: float  #: cycles / freq_ghz
    entries: Sequence[EntryTimes]
    counters: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)  #: at a deadlock: who waits for what, since which cycle
    failure: dict[str, Any] | None = None  #: when failed: the entry, the cycle and why
    components: dict[str, dict[str, int]] = field(default_factory=dict)  #: of each plugged-in one: `jobs`, `bytes`, `held`
    program: str = ""
    machine: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of docs/model/formats.md; `deadlock` and `failure` stand in it where there are any."""
        out: dict[str, Any] = {
            "status": self.status,
            "cycles": self.cycles,
            "t_ns": self.t_ns,
            "model_version": MODEL_VERSION,
            "program": self.program,
            "machine": self.machine,
            "entries": [
                {"id": e.id, "opcode": e.opcode, "issue": e.issue, "start": e.start, "end": e.end} for e in self.entries
            ],
            "counters": self.counters,
            "metrics": self.metrics,
            "warnings": self.warnings,
        }
        if self.status == "deadlock":
            out["deadlock"] = self.waiting
        if self.components:
            out["components"] = self.components
        if self.failure is not None:
            out["failure"] = self.failure
        return out

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as text: the same bytes for the same run, on any machine."""
        return json.dumps(self.to_dict(), indent=indent)

    def entry(self, id: int) -> EntryTimes:
        """The times of the entry with this id; KeyError where there is none."""
        for times in self.entries:
            if times.id == id:
                return times
        raise KeyError(f"no entry has the id {id}")

    def to_frame(self, *, library: Library = "polars") -> Any:
        """The entries as a DataFrame: `id`, `opcode`, `issue`, `start`, `end` and `cycles` [cycle]; null is what has not come.

        `library`: `polars` (the extra `analysis`) or `pandas` (the extra `pandas`); InputError where it is not installed.
        """
        rows = (
            {"id": e.id, "opcode": e.opcode, "issue": e.issue, "start": e.start, "end": e.end, "cycles": e.cycles}
            for e in self.entries
        )
        return frame_of(list(rows), library)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw where the cycles of each engine went with matplotlib (the extra `plot`), on `ax` or a new figure; gives `Axes`.

        InputError where matplotlib is not installed.
        """
        from kernbench.sim_engine.summary import draw_engines

        ax = new_axes() if ax is None else ax
        draw_engines(ax, self)
        return ax

    def _repr_html_(self) -> str:
        """The summary as a notebook shows it."""
        from kernbench.sim_engine.summary import result_html

        return result_html(self)
