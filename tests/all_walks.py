"""One program by every walk: plain, fast stepping, fast skipping; whole and in pieces; traced at each level and not.

`said` gives digests of all that a run says, and fails where two walks differ; `check` compares with the reference too, and with
processes that use other SIMD instructions (`OtherIsa`).
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.cmdq import Program
from kernbench.cmdq.plan import plan_program
from kernbench.config import NpuConfig, SystemConfig
from kernbench.sim_engine.recording import TraceOptions
from kernbench_core.fast.simd import LEVELS as ISAS
from kernbench_core.fast.simd import isa
from tests.oracles.ref_trace import reference_trace
from tests.property.test_differential import outcome
from tests.property.test_trace import OF_PACKAGE, Lines
from tests.reached import Reached, System, has_routers, is_system, watched
from tests.sampled import sampled_from

LEVELS = ("summary", "full", "access")
#: A walk, and whether it skips; the plain model never does. The first is what the others are compared with.
WAYS = (("plain", False), ("fast", False), ("fast", True))
WINDOW = 64  # [cycle] of samples
MAX_CUTS = 5


@dataclass(frozen=True)
class Case:
    """A program to be run by every walk."""

    system: System
    cuts: tuple[int, ...] = ()  #: cycles, in order, before which a run is stopped, saved and taken up by another walk
    level: str = "full"  #: of the trace that is cut, and compared with the reference's


@dataclass(frozen=True)
class Drawn:
    """A case, what the reference says of it, and what it reached."""

    case: Case
    want: dict[str, Any] = field(repr=False)
    seen: Reached = field(repr=False)


class Ways:
    """The same program on new machines."""

    def __init__(self, system: System) -> None:
        self.config: NpuConfig | SystemConfig = load_config(system[0])
        self.routers = has_routers(system[0])
        self.program: Program = load_program(system[1])
        self.plan = plan_program(self.program, self.config)  # the same for all walks

    def machine(self, walk: str) -> Machine:
        return Machine(self.config, self.program, plan=self.plan, walk=walk)

    def traced(self, walk: str, skip: bool, level: str) -> tuple[Machine, bytes]:
        """A run to its end, and its trace."""
        run, lines = self.machine(walk), Lines()
        tracing = run.trace(lines, TraceOptions(level, WINDOW))
        run.run(skip=skip)
        tracing.close()
        return run, b"".join(lines)

    def state(self, run: Machine) -> bytes:
        """The state of a run, if the machine has no routers: those have no snapshots."""
        return b"" if self.routers else run.snapshot()

    def stops(self, walk: str, skip: bool, cuts: Sequence[int]) -> tuple[list[bytes], list[str]]:
        """A run that is stopped at each cut: its states there, and what it shows of its engines."""
        run, states, seen = self.machine(walk), [], []
        for cut in cuts:
            run.step(max(0, cut - run.cycle), skip=skip)
            seen.append(str(run.peek()))
            states.append(self.state(run))
            assert str(run.peek()) == seen[-1], f"{walk}, skip={skip}: a snapshot in cycle {run.cycle} changes what is seen"
        return states, seen

    def relay(self, cuts: Sequence[int], first: int) -> Machine:
        """A run that goes on in another walk after each cut, from a snapshot."""
        run = self.machine(WAYS[first][0])
        for number, cut in enumerate(cuts):
            run.step(max(0, cut - run.cycle), skip=WAYS[(first + number) % len(WAYS)][1])
            fresh = self.machine(WAYS[(first + number + 1) % len(WAYS)][0])
            fresh.restore(run.snapshot())
            run = fresh
        run.run(skip=WAYS[(first + len(cuts)) % len(WAYS)][1])
        return run

    def traced_relay(self, cuts: Sequence[int], first: int, level: str) -> bytes:
        """The same through checkpoint files, with a trace."""
        lines, run = Lines(), self.machine(WAYS[first][0])
        tracing = run.trace(lines, TraceOptions(level, WINDOW))
        with tempfile.TemporaryDirectory() as folder:
            for number, cut in enumerate(cuts):
                run.step(max(0, cut - run.cycle), skip=WAYS[(first + number) % len(WAYS)][1])
                run.save(Path(folder, "cut.ckpt"))
                run = self.machine(WAYS[(first + number + 1) % len(WAYS)][0])
                run.load(Path(folder, "cut.ckpt"))
                tracing = run.go_on_tracing(lines)
        run.run(skip=WAYS[(first + len(cuts)) % len(WAYS)][1])
        tracing.close()
        return b"".join(lines)


def said(case: Case, ways: Sequence[tuple[str, bool]] = WAYS) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that a program's runs say: the outcome and the trace at `case.level`; and digests of everything, by name.

    AssertionError where two ways differ.
    """
    of = Ways(case.system)
    whole: dict[str, Any] = {}
    for walk, skip in ways:
        run, name = of.machine(walk), f"{walk}, {'skipping' if skip else 'stepping'}"
        run.run(skip=skip)
        last = outcome(run)
        found: dict[str, Any] = {"outcome": last, "result": run.result().to_dict(), "state": of.state(run)}
        for level in LEVELS:
            traced, found[level] = of.traced(walk, skip, level)
            assert outcome(traced) == last, f"{name}: traced at {level} it is another run"
        found["states at cuts"], found["seen at cuts"] = of.stops(walk, skip, case.cuts)
        for what, value in found.items():
            assert whole.setdefault(what, value) == value, f"{name}: {what} differs from that of {ways[0]}"
    if len(ways) == len(WAYS) and not of.routers:
        for first in range(len(WAYS)) if case.cuts else ():
            assert outcome(of.relay(case.cuts, first)) == whole["outcome"], f"cut at {case.cuts}, from way {first} on"
        if case.cuts:
            trace = of.traced_relay(case.cuts, len(case.cuts) % len(WAYS), case.level)
            assert trace == whole[case.level], f"the trace cut at {case.cuts} is another one"
    digests = {what: hashlib.sha256(repr(value).encode()).hexdigest() for what, value in whole.items()}
    return {"outcome": whole["outcome"], "result": whole["result"], "trace": whole[case.level]}, digests


def check(drawn: Drawn, others: Sequence[OtherIsa] = ()) -> None:
    """AssertionError where anything differs from what the reference says, from another walk, or with other instructions."""
    case, want = drawn.case, drawn.want
    ours, digests = said(case)
    _same_outcome(ours["outcome"], want)
    if "overlaps" in want:
        result = ours["result"]
        warned = [one for one in result.get("warnings", []) if one["code"] == "OVERLAP"]
        found = [result["failure"]] if "failure" in result else warned
        assert [(one["cycle"], one["entry"], one["with"]) for one in found] == want["overlaps"]
    machine, program = case.system
    if _has_reference_trace(machine):
        lines = ours["trace"].split(b"\n")[:-1]
        first = json.loads(lines[0])
        meta = {name: first[name] for name in OF_PACKAGE}
        expected = reference_trace(machine, program, level=case.level, window=WINDOW, meta=meta)
        for number, (line, reference) in enumerate(zip(lines, expected, strict=False)):
            assert line == reference, f"line {number + 1} of the trace"
        assert len(lines) == len(expected)
    for other in others:
        theirs = other.digests(case)
        assert theirs == {name: digests[name] for name in theirs}, f"KERNBENCH_ISA={other.isa} gives something else"


def _has_reference_trace(machine: dict[str, Any]) -> bool:
    """Systems, DRAM rows, codecs, routers and jobs of commands have none."""
    rows, jobs = "row_buffer" in machine.get("allocation", ""), machine.get("control", {}).get("micro_scheduler")
    return not (is_system(machine) or rows or has_routers(machine) or jobs is not None or machine.get("dma", {}).get("codecs"))


def _same_outcome(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert (got["status"], got["cycles"]) == (want["status"], want["cycles"])
    for ours, theirs in zip(got["entries"], want["entries"], strict=True):
        assert ours == theirs
    assert sorted(got["counters"]) == sorted(want["counters"])
    for name, count in want["counters"].items():
        assert got["counters"][name] == count, name


@st.composite
def cases(draw: Any, systems: st.SearchStrategy[System]) -> Drawn:
    """A case with cuts in cycles in which entries end, beside them and anywhere."""
    system = draw(systems)
    want, seen = watched(system)
    return Drawn(Case(system, draw(cuts(want)), draw(sampled_from(LEVELS))), want, seen)


def cuts(want: dict[str, Any]) -> st.SearchStrategy[tuple[int, ...]]:
    """One to MAX_CUTS cycles of a run, nearly all of them the first after an entry's last, or one before or after that."""
    last = max(1, want["cycles"])
    ends = sorted({entry["end"] for entry in want["entries"] if entry["end"] is not None and 0 < entry["end"] <= last})
    places = [st.integers(1, last)]
    if ends:
        beside = st.builds(int.__add__, sampled_from(ends), sampled_from([-1, -1, 1]))
        places = [sampled_from(ends), beside, sampled_from(ends), beside, *places]
    cycles = st.sets(st.one_of(places), min_size=1, max_size=MAX_CUTS)
    return cycles.map(lambda found: tuple(sorted(at for at in found if at > 0)))


class OtherIsa:
    """A process of its own that runs the fast walk with other SIMD instructions: the core takes them once, at its import."""

    def __init__(self, isa_: str) -> None:
        self.isa = isa_
        environment = {**os.environ, "KERNBENCH_ISA": isa_}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.all_walks"], env=environment, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._line() == isa_

    def __enter__(self) -> OtherIsa:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def digests(self, case: Case) -> dict[str, str]:
        """Those of `said` for the fast ways."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{asdict(case)!r}\n")
        self._process.stdin.flush()
        answer = self._line()
        assert answer.startswith("{"), f"KERNBENCH_ISA={self.isa}: {answer or 'it ended'}"
        return dict(json.loads(answer))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")


def other_isas() -> list[str]:
    """The levels that this processor has, without the one in use here."""
    try_ = "import kernbench_core.fast.simd"

    def runs(level: str) -> bool:
        environment = {**os.environ, "KERNBENCH_ISA": level}
        done = subprocess.run([sys.executable, "-c", try_], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "has no such instructions" in done.stderr, done.stderr
        return done.returncode == 0

    return [level for level in ISAS if level != isa() and runs(level)]


def _serve() -> None:
    """Answer cases on stdin, a line each, with digests or with what went wrong."""
    print(isa(), flush=True)
    for line in sys.stdin:
        fields = ast.literal_eval(line)
        try:
            answer = json.dumps(said(Case(**fields), WAYS[1:])[1])
        except AssertionError as error:
            answer = f"AssertionError: {error}".replace("\n", " ")
        print(answer, flush=True)


if __name__ == "__main__":
    _serve()
