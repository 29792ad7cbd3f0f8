"""The result of a run: the object of docs/model/formats.md, section Result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from kernbench.common.extras import Library, frame_of, new_axes

MODEL_VERSION = 1  #: version of the timing rules: a change that changes cycles increases it


class EntryTimes(msgspec.Struct, frozen=True, gc=False):
    """[cycle] The issue, start and end of an entry; None for an event that has not happened. For control entries all three are
    equal.

    >>> from kernbench.sim_engine.result import EntryTimes
    >>> EntryTimes(id=0, opcode="TE_GEMM_TILE", issue=0, start=1, end=13).cycles
    12
    """

    id: int
    opcode: str
    issue: int | None
    start: int | None
    end: int | None

    @property
    def cycles(self) -> int | None:
        """[cycle] From start to end; None if one of these events has not happened."""
        return None if self.start is None or self.end is None else self.end - self.start


class Result(msgspec.Struct, frozen=True, eq=False):
    """The result of a run; for a run that still continues, `status` is `running`.

    `counters`: the counters by their names in docs/model/formats.md; docs/model/counters.md defines them. `metrics`: `bounds`
    and `energy_pj`, which are computed from the counters.

    >>> import kernbench as kb
    >>> program = kb.Program("gemm")
    >>> tile = program.te_gemm(m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
    ...                        wgt_offset=0, ofm_bank=2, ofm_offset=0)
    >>> result = kb.simulate(program, "npu_mobile")
    >>> result.cycles, result.entry(0).end, result.counters["te0"]["macs"]
    (34, 34, 4096)
    """

    status: str  #: done, aborted, deadlock, failed, or running
    cycles: int  #: cycles run
    t_ns: float  #: cycles / freq_ghz
    entries: Sequence[EntryTimes]
    counters: dict[str, Any]
    metrics: dict[str, Any] = {}
    warnings: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []  #: for a deadlock: the waits, each with its first cycle
    failure: dict[str, Any] | None = None  #: for a failed run: the entry, the cycle and the reason
    #: counters of each plugged-in component: `jobs`, `bytes`, `held`
    components: dict[str, dict[str, int]] = {}
    program: str = ""
    machine: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of docs/model/formats.md; it has `deadlock` and `failure` only if the run has them."""
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
        """`to_dict` as text. The same run gives the same bytes on every host."""
        return json.dumps(self.to_dict(), indent=indent)

    def entry(self, id: int) -> EntryTimes:
        """The times of the entry with this id. KeyError for an unknown id."""
        for times in self.entries:
            if times.id == id:
                return times
        raise KeyError(f"no entry has the id {id}")

    def to_frame(self, *, library: Library = "polars") -> Any:
        """The entries as a DataFrame: `id`, `opcode`, `issue`, `start`, `end` and `cycles` [cycle]. An event that has not
        happened is null.

        `library`: `polars` (extra `analysis`) or `pandas` (extra `pandas`). InputError if it is not installed.
        """
        rows = (
            {"id": e.id, "opcode": e.opcode, "issue": e.issue, "start": e.start, "end": e.end, "cycles": e.cycles}
            for e in self.entries
        )
        return frame_of(list(rows), library)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the busy, stalled and idle cycles of each engine with matplotlib, on `ax` or a new figure; return the `Axes`.

        InputError if matplotlib is not installed.
        """
        from kernbench.sim_engine.result_look import draw_engines

        ax = new_axes() if ax is None else ax
        draw_engines(ax, self)
        return ax

    def _repr_html_(self) -> str:
        """The summary for notebooks."""
        from kernbench.sim_engine.result_look import result_html

        return result_html(self)
