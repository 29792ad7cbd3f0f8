"""What is kept of a run: one row. The same run gives the same row on every machine, but for `seconds`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from kernbench.common import naming
from kernbench.common.units import cycles_to_ns, plain_number
from kernbench.sim_engine.op_log import OpRecord
from kernbench.sim_engine.result import EntryTimes, Result
from kernbench.sim_engine.summary import bank_conflicts, bound_share, engine_uses

ENDED = ("done", "aborted", "deadlock")  #: the model's answer: running it again gives it again
#: Why there is no answer: the input or its code is refused, a limit of the sweep, a process that died, our bug.
FAILED = ("refused", "failed", "timeout", "memory", "crashed", "error")
LONGEST_ERROR = 2000  # characters that are kept
#: The numbers of a row: name, and what it is.
METRICS: dict[str, str] = {
    "bound": "[cycle] the largest lower bound",
    "bound_by": "what that bound is of",
    "energy_pj": "[pJ] of the whole run",
    "dram_bytes": "[B] that all DRAM channels carried",
    "dma_busy": "busy share of the run, mean of the DMA engines",
    "te_busy": "of the tensor engines",
    "ve_busy": "of the vector engines",
    "bank_denials": "denied share of the requests to scratchpad banks",
    "tokens_per_s": "of a language model: tokens that went through it, a second",
    "busbw": "[GB/s] of a collective: what each rank sends at least, over the time",
    "verified": "of a bench or collective with `verify`: whether its outputs are right",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One result by its key."""

    key: str
    status: str  #: one of ENDED or FAILED
    cycles: int | None = None
    ns: int | float | str | None = None  #: exactly, as `plain_number` writes it
    jobs: int | None = None  #: whose times are in `jobs_hash`
    jobs_hash: str = ""  #: SHA-256 over every job's times
    metrics: dict[str, Any] = {}
    error: str = ""
    seconds: float = 0.0  #: that the run took here: of no table

    @property
    def ended(self) -> bool:
        """Whether the model answered."""
        return self.status in ENDED


def failed_row(key: str, status: str, error: str, seconds: float = 0.0) -> Row:
    """The row of a run that gave no answer."""
    return Row(key=key, status=status, error=error[:LONGEST_ERROR], seconds=seconds)


def measured(result: Result, freq_ghz: Fraction) -> dict[str, Any]:
    """What every kind of run has: the fields of a row that its result tells, without bounds."""
    uses = list(engine_uses(result))
    banks = bank_conflicts(result)
    metrics: dict[str, Any] = {
        "energy_pj": result.metrics["energy_pj"]["total"],
        "dram_bytes": sum(c["bytes"] for name, c in result.counters.items() if naming.counted(name) == "dram"),
        "bank_denials": banks.rate,
    }
    for kind in ("dma", "te", "ve"):
        shares = [use.utilisation for use in uses if use.kind == kind]
        if shares:
            metrics[f"{kind}_busy"] = math.fsum(shares) / len(shares)
    failure = "" if result.failure is None else str(result.failure["message"])
    return {
        "status": result.status,
        "cycles": result.cycles,
        "ns": plain_number(cycles_to_ns(result.cycles, freq_ghz)),
        "metrics": metrics,
        "error": failure[:LONGEST_ERROR],
    }


def with_bound(result: Result) -> dict[str, Any]:
    """The largest lower bound of a program's run."""
    bound = bound_share(result)
    return {"bound": bound.cycles, "bound_by": bound.name}


def ordered(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics in the order of METRICS."""
    return {name: metrics[name] for name in METRICS if name in metrics}


def hash_of_entries(entries: Iterable[EntryTimes]) -> tuple[int, str]:
    """How many entries there are, and the hash of their ids and times; -1 stands for what has not come."""
    table = [(e.id, *(-1 if at is None else at for at in (e.issue, e.start, e.end))) for e in entries]
    return len(table), hashlib.sha256(np.array(table, dtype="<i8").tobytes()).hexdigest()


def hash_of_records(records: Iterable[OpRecord]) -> tuple[int, str]:
    """How many records an op log has, and the hash of who did what when."""
    digest = hashlib.sha256()
    count = 0
    for record in records:
        line = f"{record.op_id} {record.t_start!r} {record.t_end!r} {record.component_id} {record.op_name}\n"
        digest.update(line.encode())
        count += 1
    return count, digest.hexdigest()
