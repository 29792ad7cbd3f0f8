"""Calibration: from a table of measured kernels to a calibrated machine and runtime profile, with the errors of the fit.

Errors of left-out rows decide which constants are fitted (`choice.py`), and are reported: from a cross-validation over folds
of rows, from leaving out one class of operations after the other, and from leaving out large shapes, small shapes and skinny
products. Constants that only the left-out rows determine then keep the values of the file.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import yaml

from kernbench.analysis.chips.cases import Case, Context
from kernbench.analysis.chips.cells import LINE
from kernbench.analysis.chips.choice import FEWEST, Choice, Decision, Held, chosen_fit
from kernbench.analysis.chips.columns import columns_of, times_among
from kernbench.analysis.chips.fit import Constant, Fit, launch_key, ops_key, predictions, relative_errors, value_at
from kernbench.analysis.chips.operation_rows import read_row
from kernbench.analysis.chips.tables import rows_of, separator_meant, table_text
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.config import NpuConfig
from kernbench.config.runtime import Runtime
from kernbench.version import VERSION
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.operation import Collective
from kernbench.workloads.ops.timing import OperationTimer

WORST = 8  #: rows that are shown, those with the largest errors
ONE_CLASS = "No class of operations was left out: the table has one class"
COLUMNS = ("class", "op", "measured")  #: columns that every table must have
#: Names of these columns in other tables, in lower case and without other characters than letters.
_ALIKE = {
    "class": ("kind", "type", "category"),
    "op": ("name", "kernel", "operation", "operator"),
    "measured": ("timeus", "latencyus", "durationus", "measuredus", "us", "time", "latency", "duration", "runtime"),
}


@dataclass(frozen=True, slots=True)
class FarRow:
    """A row with a large error after the fit, and the components of its time."""

    label: str
    op: str
    measured: float
    ours: float
    causes: dict[str, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of a calibration."""

    source: str
    digest: str  #: SHA-256 of the table
    cases: int
    unread: list[str]
    before: tuple[float, float]  #: median and mean error before the fit, with the values of the files
    fitted: Fit
    after: tuple[float, float]
    choice: Choice
    worst: list[FarRow]

    @property
    def folds(self) -> Held:
        """Errors of the cross-validation over folds of rows."""
        return next(one for one in self.choice.held if one.name.endswith("folds"))

    @property
    def classes(self) -> list[Held]:
        """Errors of each class of operations that was left out."""
        return [replace(one, name=one.name[6:]) for one in self.choice.held if one.name.startswith("class ")]

    @property
    def shapes(self) -> list[Held]:
        """Errors of large shapes, small shapes and skinny products that were left out."""
        return [one for one in self.choice.held if one.name.endswith(("shapes", "products"))]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""

        def held(one: Held | Decision) -> dict[str, Any]:
            return {name: getattr(one, name) for name in one.__slots__}

        return {
            "source": self.source, "sha256": self.digest, "rows": self.cases, "unread": self.unread,
            "before": {"median": self.before[0], "mean": self.before[1]},
            "after": {"median": self.after[0], "mean": self.after[1]},
            "choice": {"name": self.choice.name, "rows": self.choice.rows},
            "groups": [held(one) for one in self.choice.decisions],
            "constants": [one.to_dict() for one in self.fitted.constants], "cross_validation": held(self.folds),
            "left_out": [held(one) for one in self.classes], "left_out_shapes": [held(one) for one in self.shapes],
            "worst": [{name: getattr(one, name) for name in one.__slots__} for one in self.worst],
        }  # fmt: skip


def calibrate(path: Path, machine: NpuConfig, runtime: Runtime) -> Calibration:
    """Fit the constants that the table's rows determine; InputError if no row can be used."""
    ChipView.of(machine)
    text = table_text(path)
    cases, kinds, unread = _cases(path, text, machine)
    start = _errors(cases, machine, runtime)
    if len(cases) < FEWEST:
        rule = f"the file has {counted(len(cases), 'usable row')}, but a fit needs at least {FEWEST}"
        raise InputError(Problem(str(path), rule, remedy="measure more shapes of each class of operations"))
    fitted, choice = chosen_fit(cases, kinds, machine, runtime, lambda rows: constants_for(rows, machine, runtime))
    timer = OperationTimer(fitted.machine, fitted.runtime)
    ours = [case.ask(timer) for case in cases]
    errors = relative_errors(cases, ours)
    far = sorted(range(len(cases)), key=lambda i: (-errors[i], i))[:WORST]
    worst = [_far(cases[i], ours[i], timer) for i in far]
    digest = hashlib.sha256(text.encode()).hexdigest()
    after = (median(errors), fmean(errors))
    return Calibration(str(path), digest, len(cases), unread, start, fitted, after, choice, worst)


def _cases(path: Path, text: str, machine: NpuConfig) -> tuple[list[Case], list[str], list[str]]:
    rows = rows_of(path, text)
    head = [name for name in rows[0] if name != LINE] if rows else columns_of(next(csv.reader(text.splitlines()[:1]), []))[0]
    missing = [name for name in COLUMNS if name not in head]
    if missing and "model" in head and "measured" in head:
        rule = "it has times of whole models, which are not fitted"
        remedy = "fit a table of operations; kbsim validate chips compares a table of models"
        raise InputError(Problem(str(path), rule, remedy=remedy))
    if missing:
        are = "is" if len(missing) == 1 else "are"
        rule = f"its first line must name the columns {', '.join(COLUMNS)}, and {', '.join(missing)} {are} not there"
        raise InputError(Problem(f"{path}:1", rule, remedy=separator_meant(rows) or _columns_meant(head, missing)))
    context = Context(machine, "", rows, path.name)
    cases: list[Case] = []
    kinds: list[str] = []
    unread: list[str] = []
    for row in rows:
        number = row[LINE]
        try:
            case = read_row(row, context)
        except ValueError as error:
            raise InputError(Problem(f"{path}:{number}", f"the row cannot be read: {error}")) from None
        if case is None:
            unread.append(f"line {number}: {row['class']} {row['op']} has no plan")
        else:
            cases.append(case)
            kinds.append(row["class"])
    if not cases:
        raise InputError(Problem(str(path), "it has no usable row"))
    return cases, kinds, unread


def _columns_meant(head: Sequence[str], missing: Sequence[str]) -> str:
    """The remedy for a first line without some columns: the columns to rename and to add."""
    times = times_among(head) if "measured" in missing else []
    if len(times) > 1:
        return f"rename one of {', '.join(times)} to measured"
    plain = {re.sub("[^a-z]", "", name.lower()): name for name in reversed(head)}
    renamed = {name: plain[one] for name in missing for one in (name, *_ALIKE[name]) if one in plain}
    added = [name for name in missing if name not in renamed]
    renamed |= {name: name.upper() for name in "mnk" if name not in head and name.upper() in head}
    texts = [f"rename {', '.join(f'{other} to {name}' for name, other in renamed.items())}"] if renamed else []
    if added:
        texts.append(f"add {' and '.join(added)}, as in class,op,m,n,k,measured and matmul,matmul,64,4096,4096,17.4")
    return "; ".join(texts)


def constants_for(cases: Sequence[Case], machine: NpuConfig, runtime: Runtime) -> list[Constant]:
    """The constants that these rows determine, by the operations that they measure."""
    measured = [case.operation for case in cases if case.operation is not None]
    operations = {(one.name, one.kind) for one in measured}
    kinds = {kind for _, kind in operations}
    chip = ChipView.of(machine).chip
    streams = kinds & {"norm", "elementwise", "gather"}
    found = []
    if kinds & {"matmul", "moe", "attention"} or streams:
        found.append(Constant("dram.peak_bw_bytes_per_cycle", "byte/cycle", "bandwidth that DRAM sustains"))
    if kinds & {"matmul", "moe"}:
        found.append(Constant("te.macs_per_cycle", "MAC/cycle", "product rate that the cores sustain, at 8 bits"))
        if chip.cache_bytes and chip.kind == "gpu":
            found.append(Constant("chip.cache_bytes_per_cycle", "byte/cycle", "operands from the last-level cache"))
    if streams and chip.cache_bytes:
        found.append(Constant("chip.stream_bytes_per_cycle", "byte/cycle", "vector kernels at the last-level cache"))
    latent = {pair for pair in operations if pair[1] != "collective"}
    if latent and chip.kind == "gpu":
        found.append(Constant("dram.t_setup_cycles", "cycle", "latency of a dependent load from DRAM"))
    if latent and runtime.start != "none":
        name = {"stream": "start_ns", "graph": "graph_start_ns"}[runtime.start]
        found.append(Constant(f"chip.{name}", "ns", "start of a kernel on the chip"))
    if "attention" in kinds:
        found.append(Constant("chip.attention_key_cycles", "cycle", "a block of attention, a key"))
        found.append(Constant("runtime.attention.start_ns", "ns", "attention kernels start, beyond the chip's start", 1000.0))
    if "collective" in kinds:
        crossing = [one.crosses for one in measured if isinstance(one, Collective)]
        if not all(crossing):
            found.append(Constant("chip.links_share", "1", "share of the links that a collective sustains"))
            found.append(Constant("chip.link_latency_ns", "ns", "a step of a collective"))
        if any(crossing):
            found.append(Constant("chip.nic_gb_s", "GB/s", "bandwidth of a network adapter"))
            found.append(Constant("chip.network_latency_ns", "ns", "latency of the network in a step between nodes", 1000.0))
    launched = {(one.operation.name, one.operation.kind) for one in cases if one.operation is not None and not one.traced}
    by_host = {
        (name, kind)
        for name, kind in launched
        if kind == "collective" or (kind != "attention" and (runtime.sync_ns or runtime.launch(name, kind)))
    }
    for key in sorted({launch_key(runtime, *pair) for pair in by_host}):
        path = f"runtime.launch_ns.{key}"
        begin = value_at(machine, runtime, path) or float(runtime.launch_ns.get("default", 0)) or 10_000.0
        found.append(Constant(path, "ns", f"the host before a {key} kernel", begin))
    by_chip = {pair for pair in launched - by_host if pair[1] != "attention"}
    for key in _keys(by_chip, runtime):
        meaning = f"start of {key} kernels, beyond the chip's start"
        if key == "matmul" and key in runtime.ops and runtime.ops[key].chain:
            found.append(Constant(f"runtime.ops.{key}.chain", "DRAM latency", meaning))
        else:
            found.append(Constant(f"runtime.ops.{key}.start_ns", "ns", meaning, 1000.0))
    in_streams = {pair for pair in operations if pair[1] in streams}
    for key in _keys(in_streams, runtime) if chip.kind == "gpu" else ():
        if key in runtime.ops and runtime.ops[key].thread_bytes:
            found.append(Constant(f"runtime.ops.{key}.thread_bytes", "byte", f"a thread of a {key} kernel has in flight"))
    return found


def _keys(operations: set[tuple[str, str]], runtime: Runtime) -> list[str]:
    """The keys of a profile's `ops` under which these operations are looked up."""
    return sorted({ops_key(runtime, name, kind) for name, kind in operations})


def _errors(cases: Sequence[Case], machine: NpuConfig, runtime: Runtime) -> tuple[float, float]:
    errors = relative_errors(cases, predictions(cases, machine, runtime))
    return median(errors), fmean(errors)


def _far(case: Case, ours: float, timer: OperationTimer) -> FarRow:
    return FarRow(case.label, case.op, case.measured, ours, case.causes(timer))


def machine_text(found: Calibration) -> str:
    """The calibrated machine as a file, with comments on the source of its constants."""
    data = found.fitted.machine.to_dict()
    data["chip"] = {**data["chip"], "calibrated": True}
    return _provenance(found, "runtime.", inside=False) + str(yaml.safe_dump(data, sort_keys=False))


def runtime_text(found: Calibration) -> str:
    """The calibrated profile as a file."""
    from kernbench.config.machine import plain_value

    return _provenance(found, "runtime.", inside=True) + str(yaml.safe_dump(plain_value(found.fitted.runtime), sort_keys=False))


def decision_text(one: Decision) -> str:
    """What was decided on a group of constants, with the errors of left-out rows, as a line."""
    text = f"{one.name}: {f'fitted ({one.choice})' if one.fitted else 'kept'}"
    if one.before is not None and one.after is not None:
        text += f", error of left-out rows {one.before:.1%} before, {one.after:.1%} after"
    return f"{text}; {one.why}"


def _provenance(found: Calibration, prefix: str, *, inside: bool) -> str:
    source, (middle, mean), (was, was_mean) = Path(found.source).name, found.after, found.before
    lines = [
        f"# Fitted by kbsim calibrate {VERSION} on {found.cases} rows of {source} (SHA-256 {found.digest}).",
        f"# Error: median {middle:.1%}, mean {mean:.1%}; before the fit {was:.1%}, {was_mean:.1%}.",
        *(f"# {decision_text(one)}." for one in found.choice.decisions),
        f"# Rows that the fit had not seen ({found.folds.name}): median {found.folds.median:.1%}, mean {found.folds.mean:.1%}.",
    ]
    for held in found.classes:
        lines.append(f"# Class {held.name} left out ({held.rows} rows): median {held.median:.1%}, mean {held.mean:.1%}.")
    for held in found.shapes:
        name = held.name.capitalize()
        lines.append(f"# {name} left out ({held.rows} rows): median {held.median:.1%}, mean {held.mean:.1%}.")
    if not found.classes:
        lines.append(f"# {ONE_CLASS}.")
    for one in found.fitted.constants:
        if one.constant.path.startswith(prefix) == inside:
            text = f"# {one.constant.path} = {one.value:.6g} {one.constant.unit} [{one.low:.4g}, {one.high:.4g}]"
            lines.append(f"{text}, was {one.before:.6g}: {one.constant.meaning}")
    return "\n".join(lines) + "\n"
