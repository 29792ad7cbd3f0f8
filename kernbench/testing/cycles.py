"""`assert_cycles`: compares the cycles of a run with a limit or a baseline, and reports why a run takes more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernbench.api.arguments import names_checked
from kernbench.common.errors import InputError, KernbenchError, Problem
from kernbench.testing.baselines import Baseline, read_baselines

LEAST_SHARE = 0.005  # share of the run; the report omits a group that changed by less
UPDATE = "pytest --kbsim-update"


class Measured(Protocol):
    """The argument of `assert_cycles`: a `Run`, an `LlmRun`, a `Result`, or any other object with cycles."""

    @property
    def cycles(self) -> int:
        """[cycle] Duration of the run."""
        ...


@dataclass
class Session:
    """One run of pytest: the location of its baselines, and the results of its tests."""

    path: Path
    update: bool
    recorded: list[tuple[str, Baseline]] = field(default_factory=list)  #: recorded by the current test, with `--kbsim-update`
    faster: list[tuple[str, int, int]] = field(default_factory=list)  #: name, cycles of this run, cycles of the baseline
    _baselines: dict[str, Baseline] | None = None

    def baseline(self, name: str) -> Baseline | None:
        """The baseline of a name, or None. InputError in the same cases as `read_baselines`."""
        if self._baselines is None:
            self._baselines = read_baselines(self.path)
        return self._baselines.get(name)


#: The sessions of pytest in this process, the innermost last: a test of a plugin runs pytest inside pytest.
sessions: list[Session] = []


@names_checked
def assert_cycles(result: Measured, *, at_most: int | None = None, baseline: str | None = None) -> None:
    """Fail the test if a run did not end, or took more cycles than `at_most` or than its baseline.

    `result`: the result of `kernbench.run`, `kernbench.llm` or `kernbench.simulate`. `at_most`: [cycle]. `baseline`: a name in
    the file that `pytest --kbsim-update` writes. A run with fewer cycles than its baseline passes, and the summary of pytest
    lists it.

    The AssertionError lists the causes of the cycles on the critical path, and the changes since the baseline. The function
    raises InputError without a limit, for an `at_most` that is not an integer of at least 0, and for a baseline outside of
    pytest.

    >>> import kernbench as kb
    >>> from kernbench.pytest import assert_cycles
    >>> assert_cycles(kb.run("llama2-7b-decode", config="npu_server"), at_most=130_000)
    """
    __tracebackhide__ = True
    if at_most is None and baseline is None:
        remedy = "give at_most=CYCLES, baseline=NAME, or both; kbsim.assert_cycles names the baseline itself"
        raise InputError(Problem("assert_cycles", "it needs a limit", remedy=remedy))
    if at_most is not None and (type(at_most) is not int or at_most < 0):
        raise InputError(Problem("assert_cycles", "it must be an integer of 0 or more [cycle]", "at_most", at_most))
    if not hasattr(result, "cycles"):
        rule = "it must be the result of kernbench.run, kernbench.llm or kernbench.simulate"
        raise InputError(Problem("assert_cycles: result", f"{rule}, and it is of type {type(result).__name__}"))
    status = getattr(result, "status", "done")
    if status != "done":
        raise AssertionError(f"{_head(result)}\nthe run did not end: its status is {status}, so its cycles cannot be compared")
    if at_most is not None and result.cycles > at_most:
        raise AssertionError(_report(result, at_most, f"at_most={at_most:,}", {}))
    if baseline is not None:
        _against(result, baseline)


def _against(result: Measured, name: str) -> None:
    __tracebackhide__ = True
    if not sessions:
        remedy = "run the tests by pytest, with -p kernbench.pytest where plugins are not loaded by themselves"
        raise InputError(
            Problem(
                "assert_cycles", "baselines need the pytest plugin of kernbench, which is not active", "baseline", name, remedy
            )
        )
    session = sessions[-1]
    if session.update:
        session.recorded.append((name, Baseline(result.cycles, _model_version(), _groups(result))))
        return
    found = session.baseline(name)
    if found is None:
        raise AssertionError(f'{_head(result)}\nno baseline "{name}" in {session.path}\nrecord one: {UPDATE}')
    if result.cycles > found.cycles:
        text = _report(result, found.cycles, f'the baseline "{name}" ({found.cycles:,})', found.groups)
        if found.model_version != _model_version():
            text += f"\nthe timing rules changed: model version {found.model_version} then, {_model_version()} now"
        raise AssertionError(f"{text}\nto accept the new value: {UPDATE}")
    if result.cycles < found.cycles:
        session.faster.append((name, result.cycles, found.cycles))


def _model_version() -> int:
    from kernbench.sim_engine.result import MODEL_VERSION

    return int(MODEL_VERSION)


def _head(result: Measured) -> str:
    cycles = f"{result.cycles:,} cycles"
    target, machine = getattr(result, "target", ""), getattr(result, "machine", "")
    name = str(target or getattr(result, "model", "") or getattr(result, "program", ""))
    on = str(getattr(machine, "source", machine))
    return f"{name} on {on}: {cycles}" if name and on else f"{name}: {cycles}" if name else cycles


def _report(result: Measured, limit: int, what: str, before: Mapping[str, float]) -> str:
    over = result.cycles - limit
    share = f" (+{over / limit:.1%})" if limit else ""
    lines = [_head(result), f"{over:,} cycles more than {what}{share}"]
    why = getattr(result, "why", None)
    if why is None:
        return "\n".join(lines)
    try:
        found = why()
    except KernbenchError as error:
        return "\n".join([*lines, f"why is not known: {error}"])
    return "\n".join([*lines, "", found.sentence, *_changes(found.metrics, before, result.cycles)])


def _changes(now: Mapping[str, float], before: Mapping[str, float], cycles: int) -> list[str]:
    """The changes since the baseline, the largest growth first."""
    if not before:
        return []
    names = sorted({*now, *before}, key=lambda name: (before.get(name, 0.0) - now.get(name, 0.0), name))
    least = max(1.0, LEAST_SHARE * cycles)
    rows = [(name, before.get(name, 0.0), now.get(name, 0.0)) for name in names]
    rows = [row for row in rows if abs(row[2] - row[1]) >= least] or rows[:1]
    wide = max(len(name) for name, _, _ in rows)
    return [f"  {name:<{wide}}  {was:>13,.0f} -> {new:>13,.0f} cycles  {new - was:>+12,.0f}" for name, was, new in rows]


def _groups(result: Measured) -> dict[str, float]:
    why: Callable[[], Any] | None = getattr(result, "why", None)
    if why is None:
        return {}
    try:
        return {name: round(cycles, 3) for name, cycles in why().metrics.items()}
    except KernbenchError:
        return {}
