"""`kernbench.fuzz`: runs a program under many legal timings to find races and lost waits."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from kernbench.analysis.fuzz.finding import Finding, ranges_of, read_finding
from kernbench.analysis.fuzz.report import junit, to_dict
from kernbench.analysis.fuzz.search import FINDINGS, RUNS, Search, run_once, search
from kernbench.analysis.fuzz.target import Fuzzed, FuzzedBench, FuzzedProgram, Outcome, check_reference
from kernbench.api.answer import Answer, Row
from kernbench.api.arguments import check_params
from kernbench.api.targets import DEFAULT_MACHINE, Config, Overrides, Target, bench_of, machine_of, name_of, program_of
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api.discovery import is_script
from kernbench.sim_engine.perturbation import KINDS, USUAL, ListedDraws, NoDraws


@dataclass(frozen=True, eq=False, repr=False)
class FuzzResult(Answer):
    """The result of a search for races, as `kernbench.fuzz` returns it. It is true if the search found nothing.

    The table of `to_frame` has one row for each finding: `kind` (tensor, race, deadlock, failed), `what`, `first` and `second`
    (the two ops), `bytes` (the bytes that both ops access), and `delays` (the delays that show the finding).

    >>> import kernbench as kb
    >>> result = kb.fuzz("reduce", runs=5)
    >>> bool(result), result.runs, result.orders
    (True, 5, 1)
    """

    tables: ClassVar[tuple[str, ...]] = ("findings",)

    search: Search

    def __bool__(self) -> bool:
        return not self.search.findings

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings. `save(path)` writes a finding for `kbsim fuzz --replay`."""
        return tuple(self.search.findings)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.search.runs

    @property
    def orders(self) -> int:
        """The number of distinct orders of conflicting accesses that occurred."""
        return len(self.search.orders)

    @property
    def metrics(self) -> Row:
        """`runs`, `orders`, `findings`, `showing` (runs with a finding) and `aborted` (runs that were stopped early)."""
        one = self.search
        return {
            "runs": one.runs,
            "orders": len(one.orders),
            "findings": len(one.findings),
            "showing": one.showing,
            "aborted": one.aborted,
        }

    @property
    def headline(self) -> str:
        return f"{self.search.target.name} on {self.search.target.config.source}: {self.search.progress}"

    def rows(self, table: str) -> list[Row]:
        found: list[Row] = []
        for one in self.findings:
            race = one.wrong.race
            found.append(
                {
                    "kind": one.wrong.kind,
                    "what": one.wrong.what,
                    "first": None if race is None else str(race.first),
                    "second": None if race is None else str(race.second),
                    "bytes": None if race is None else race.high - race.low,
                    "delays": len(one.draws),
                }
            )
        return found

    def to_dict(self) -> Row:
        """The content of `kbsim fuzz --json`."""
        return to_dict(self.search)

    def junit(self) -> str:
        """A JUnit report."""
        return junit(self.search)

    def draw(self, ax: Any) -> None:
        """Draw one bar for each finding: the number of delays that show the finding."""
        rows = self.rows("findings")
        ax.barh([f"{k}: {row['kind']}" for k, row in enumerate(rows, 1)], [row["delays"] for row in rows])
        ax.set_xlabel("delays that show it")
        ax.set_title(self.headline, fontsize="medium", loc="left")


def fuzz(
    target: Target,
    config: Config | None = None,
    overrides: Overrides = (),
    *,
    runs: int = RUNS,
    time_budget: float | None = None,
    seed: int = 0,
    jobs: int = 1,
    latency: int = USUAL.latency,
    start: int = USUAL.start,
    slowest: str | Fraction = USUAL.slowest,
    vary: Sequence[str] = KINDS,
    most_findings: int = FINDINGS,
    strict_wait: bool = False,
    allow_code: AllowCode = (),
    ccl: Sequence[str | os.PathLike[str]] = (),
    order_free: Sequence[str] = (),
    progress: Callable[[Search], None] | None = None,
    **params: Any,
) -> FuzzResult:
    """Run a target under many legal timings, and compare the tensors of each run with the tensors of the run without delays.

    - `target`: the same as in `run`, the name of a collective, or a script (`FILE.py`) that launches Triton kernels or workers.
      A launch of a script with several launches is `FILE.py:NAME`. The `params` of a collective are the parameters in a sweep:
      `algo`, `ranks`, `size`, `dtype`, `topo`, `slots`, `slot_bytes`, `tier`.
    - `config`, `overrides`, `strict_wait` and `allow_code`: the same as in `run`.
    - `ccl`: files in the format of ccl.yaml that add algorithms of collectives.
    - `order_free`: tensors that depend on the order of the run by design. Float tensors among them are compared within the
      tolerance of their type. Other tensors among them are not compared.
    - `runs`: the largest number of runs.
    - `time_budget`: the time [s] after which no run begins.
    - `jobs`: the number of processes.
    - `latency`: the largest delay [cycle] that is added to a head latency.
    - `start`: the largest delay [cycle] of the start of a PE.
    - `slowest`: the smallest share of its capacity that a link or DRAM channel may keep.
    - `vary`: the properties that vary between runs.
    - `most_findings`: the number of findings after which the search ends.
    - `seed`: the number from which all timings are drawn.
    - `progress`: a function that is called with the `Search` after each run.

    The same seed and number of runs give the same findings for every value of `jobs`. The function raises InputError in the
    same cases as `run`, if the run without delays does not end, and for values that are not allowed.

    >>> import kernbench as kb
    >>> kb.fuzz("all_reduce", runs=3, ranks=4, size="1KiB").findings
    ()
    """
    ranges = ranges_of("fuzz", latency, start, str(slowest), tuple(vary))
    for name, value, least in (("runs", runs, 1), ("jobs", jobs, 1), ("most_findings", most_findings, 1), ("seed", seed, 0)):
        if type(value) is not int or value < least:
            raise InputError(Problem("fuzz", f"it must be an integer of at least {least}", name, value))
    if time_budget is not None and not 0 < time_budget < 1e9:
        raise InputError(Problem("fuzz", "it must be a number of seconds above 0", "time_budget", time_budget))
    if params and not (isinstance(target, str) and target in COLLECTIVES):
        bench = bench_of(target)
        check_params(fuzz, params, () if bench is None else bench.params)
    fuzzed = fuzzed_of(
        target, config, overrides, params, strict_wait=strict_wait, allow_code=allow_code, ccl=ccl, order_free=order_free
    )
    found = search(
        fuzzed,
        described(target, config, overrides, params, strict_wait=strict_wait, ccl=ccl, order_free=order_free),
        runs=runs,
        budget=time_budget,
        seed=seed,
        jobs=jobs,
        ranges=ranges,
        most_findings=most_findings,
        progress=progress,
    )
    return FuzzResult(found)


def fuzzed_of(
    target: Target,
    config: Config | None,
    overrides: Overrides,
    params: Mapping[str, Any],
    *,
    strict_wait: bool = False,
    allow_code: AllowCode = (),
    ccl: Sequence[str | os.PathLike[str]] = (),
    order_free: Sequence[str] = (),
) -> Fuzzed:
    """The target in the form that the search runs. InputError if the target, a parameter or the machine is not valid."""
    made = _fuzzed_of(target, config, overrides, params, strict_wait=strict_wait, allow_code=allow_code, ccl=ccl)
    if not order_free:
        return made
    if isinstance(made, FuzzedBench):
        return replace(made, order_free=frozenset(order_free))
    rule = f"order_free names tensors, and {made.name} is a program, which has none"
    raise InputError(Problem("fuzz", rule, remedy="leave it out"))


def _fuzzed_of(
    target: Target,
    config: Config | None,
    overrides: Overrides,
    params: Mapping[str, Any],
    *,
    strict_wait: bool,
    allow_code: AllowCode,
    ccl: Sequence[str | os.PathLike[str]],
) -> Fuzzed:
    if isinstance(target, str) and target in COLLECTIVES:
        from kernbench.ccl.measure import bench_of as collective_bench
        from kernbench.sweep.targets.ccl import CclTarget

        made = CclTarget(target, target, params, files=ccl, allow_code=allow_code)
        machine = machine_of(config or made.default_machine, overrides, allow_code=allow_code)
        return FuzzedBench(target, collective_bench(*made.request(machine, {})), {}, machine, strict_wait)
    if ccl:
        rule = f"ccl is for collectives ({', '.join(COLLECTIVES)}), and {name_of(target)} is none"
        raise InputError(Problem("fuzz", rule, remedy="leave it out"))
    if not params and isinstance(target, (str, os.PathLike)) and is_script(os.fspath(target)):
        return _script(os.fspath(target), config, overrides, strict_wait=strict_wait, allow_code=allow_code)
    bench = bench_of(target)
    if bench is not None:
        from kernbench.runtime_api.bench import checked

        machine = machine_of(config or bench.machine, overrides, allow_code=allow_code)
        return FuzzedBench(name_of(target), bench, checked(bench.where, bench.params, params), machine, strict_wait)
    if params:
        rule = f"{', '.join(params)} is for benches and collectives, and {name_of(target)} is a program"
        remedy = "leave it out; to set a value of the machine, write its path, such as dram.channels=4"
        raise InputError(Problem("fuzz", rule, remedy=remedy))
    machine = machine_of(config or DEFAULT_MACHINE, overrides, allow_code=allow_code)
    return FuzzedProgram(name_of(target), program_of(target, machine), machine)


def _script(
    target: str, config: Config | None, overrides: Overrides, *, strict_wait: bool, allow_code: AllowCode
) -> FuzzedBench:  # fmt: skip
    """A launch of a script. Without a machine here, the script chooses it."""
    from kernbench.api.script import launch_of
    from kernbench.runtime_api.triton.run import DEFAULT_MACHINE as OF_TRITON

    machine = None
    if config is not None or overrides:
        machine = machine_of(config or OF_TRITON, overrides, allow_code=allow_code)
    found = launch_of(target, machine)
    return FuzzedBench(target, found.bench, found.params, found.config, strict_wait or found.strict_wait)


def described(
    target: Target,
    config: Config | None,
    overrides: Overrides,
    params: Mapping[str, Any],
    *,
    strict_wait: bool,
    ccl: Sequence[str | os.PathLike[str]] = (),
    order_free: Sequence[str] = (),
) -> dict[str, Any]:
    """The description of the target in a saved finding: enough for `fuzzed_of`, if the target and the machine have names."""
    given = [f"{path}={value}" for path, value in overrides.items()] if isinstance(overrides, Mapping) else list(overrides)
    named = isinstance(target, (str, os.PathLike)) and (config is None or isinstance(config, (str, os.PathLike)))
    return {
        "target": os.fspath(target) if isinstance(target, (str, os.PathLike)) else name_of(target),
        "config": None if not isinstance(config, (str, os.PathLike)) else os.fspath(config),
        "overrides": given,
        "params": {name: value for name, value in params.items() if isinstance(value, (str, int, float, bool))},
        "strict_wait": strict_wait,
        "named": named,
        **({"ccl": [os.fspath(one) for one in ccl]} if ccl else {}),
        **({"order_free": list(order_free)} if order_free else {}),
    }


@dataclass(frozen=True)
class Replay:
    """A saved finding and the result of running it again."""

    saved: Finding
    outcome: Outcome
    again: Finding  #: the finding of the new run

    @property
    def same(self) -> bool:
        """Whether the new run gave the same cycles, tensors and order of accesses as the saved run."""
        return self.outcome.digest == self.saved.digest

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        if self.same:
            return f"the finding is there again, exactly: {self.saved.wrong.kind}, {counted(self.outcome.cycles, 'cycle')}"
        if self.again.wrong.what:
            return "the finding is there again, but the run is another one: the target, the machine or the version has changed"
        return "the finding is not there any more"


def replay(path: str | os.PathLike[str], target: Target | None = None, *, allow_code: AllowCode = ()) -> Replay:
    """Run a saved finding again. `target`: required if the saved target has no name, for example a bench that was given as an
    object.

    The function raises InputError for a file that is not a finding, and in the same cases as `fuzz`.
    """
    from kernbench.analysis.fuzz.finding import Wrong, wrong_with

    saved = read_finding(path)
    there = _checked_target(os.fspath(path), saved.target, target is not None)
    fuzzed = fuzzed_of(
        there["target"] if target is None else target,
        there["config"],
        there["overrides"],
        there["params"],
        strict_wait=there["strict_wait"],
        allow_code=allow_code,
        ccl=there.get("ccl", ()),
        order_free=there.get("order_free", ()),
    )
    reference = fuzzed.run(NoDraws(), saved.ranges)
    check_reference(fuzzed.name, reference)
    outcome = run_once(fuzzed, reference, ListedDraws(saved.draws), saved.ranges)
    wrong = wrong_with(reference, outcome) or Wrong(saved.wrong.kind, "", None)
    again = Finding(saved.target, saved.ranges, saved.run, saved.draws, wrong, outcome.digest, outcome.cycles, saved.original)
    return Replay(saved, outcome, again)


def _checked_target(where: str, plain: Mapping[str, Any], given: bool) -> Mapping[str, Any]:
    """The target of a finding file. InputError if its values have wrong types."""
    texts: Any = plain.get("overrides")
    files: Any = plain.get("ccl", [])
    free: Any = plain.get("order_free", [])
    params: Any = plain.get("params")
    right = (
        isinstance(plain.get("target"), str)
        and isinstance(plain.get("config"), (str, type(None)))
        and isinstance(texts, list)
        and isinstance(files, list)
        and isinstance(free, list)
        and all(isinstance(one, str) for one in (*texts, *files, *free))
        and isinstance(params, dict)
        and all(isinstance(one, (str, int, float, bool)) for one in params.values())
        and isinstance(plain.get("strict_wait"), bool)
    )
    if not right:
        rule = "it must have target, config, overrides (a list of texts), params (plain values) and strict_wait"
        raise InputError(Problem(where, rule, "target", remedy="kbsim fuzz --save DIR writes such files"))
    if plain.get("named") is False and not given:
        rule = f"{plain['target']} was given as an object, which no file can hold"
        raise InputError(Problem(where, rule, "target", remedy="kernbench.api.fuzz.replay(path, target) takes the object"))
    return plain
