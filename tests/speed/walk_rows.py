"""The plain model beside the fast walk on the three loads, and how long its code is. `python -m tests.speed.walk_rows`."""

from __future__ import annotations

import gc
import io
import time
import tokenize
from dataclasses import dataclass
from pathlib import Path

from kernbench_core import Core
from tests.speed.goals import Goal, goal_lines
from tests.speed.measure import Size, core_jobs, engine_ticks
from tests.speed.sample import Sample
from tests.speed.workloads import LOADS, Load, core_tables, jobs_for

GOAL = 5.0  #: the plain model takes at most so many times as long
MODEL = Path(__file__).parents[2] / "kernbench_core" / "model"
FULL = (Size(1, 200_000, 0, 7), Size(8, 40_000, 0, 7), Size(64, 6_000, 0, 7))
QUICK = (Size(1, 40_000, 0, 3), Size(8, 8_000, 0, 3), Size(64, 1_000, 0, 3))
WALKS: dict[str, tuple[bool, bool]] = {"plain": (True, False), "stepping": (False, False), "skipping": (False, True)}
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True, slots=True)
class WalkRow:
    """One machine under one load: medians of CPU time, [ns] an engine-tick, and the ratios within a round."""

    load: str
    pes: int
    cycles: int
    plain: Sample
    stepping: Sample
    skipping: Sample
    over_stepping: Sample  #: how many times the time of stepping that of the plain model is
    over_skipping: Sample  #: and that of skipping, which is what a run does where nothing else is said


@dataclass(frozen=True, slots=True)
class ModelLines:
    """Lines of code of the plain model, without comments and docstrings."""

    files: dict[str, int]  #: by path inside `model/`: `.pyx` and `.pxd`

    @property
    def functions(self) -> int:
        return sum(count for name, count in self.files.items() if name.endswith(".pyx"))

    @property
    def declarations(self) -> int:
        return sum(count for name, count in self.files.items() if name.endswith(".pxd"))


def walk_rows(quick: bool) -> list[WalkRow]:
    """The three loads on 1, 8 and 64 PEs, the walks in turn."""
    return [_row(load, size) for load in LOADS.values() for size in (QUICK if quick else FULL)]


def _row(load: Load, size: Size) -> WalkRow:
    """RuntimeError where the walks do not give the same run."""
    tables = core_tables(load, size.pes, jobs_for(load, size.pes, size.core_cycles))
    spent: dict[str, list[float]] = {name: [] for name in WALKS}
    runs: dict[str, Core] = {}
    for _ in range(size.repeats):
        for name, (plain, skip) in WALKS.items():
            core = runs[name] = Core(*tables, plain=plain)
            gc.collect()
            began = time.process_time()
            core.run(size.core_cycles, skip=skip)
            spent[name].append(time.process_time() - began)
    first = runs["plain"]
    for name, core in runs.items():
        if core_jobs(core) != core_jobs(first) or core.counters() != first.counters():
            raise RuntimeError(f"{load.name}, {size.pes} PEs: {name} is another run than that of the plain model")
    ticks = engine_ticks(core_jobs(first), [one["busy"] for one in first.counters()["resources"]], size.core_cycles)
    times = {name: Sample(seconds / ticks * 1e9 for seconds in of) for name, of in spent.items()}
    over = {name: Sample(a / b for a, b in zip(spent["plain"], spent[name], strict=True)) for name in ("stepping", "skipping")}
    return WalkRow(
        load.name, size.pes, size.core_cycles, times["plain"], times["stepping"], times["skipping"],
        over["stepping"], over["skipping"],
    )  # fmt: skip


def model_lines() -> ModelLines:
    """Of every file of the model."""
    paths = [path for path in sorted(MODEL.rglob("*")) if path.suffix in (".pyx", ".pxd")]
    return ModelLines({path.relative_to(MODEL).as_posix(): code_lines(path.read_text(encoding="utf-8")) for path in paths})


def code_lines(text: str) -> int:
    """Lines on which something stands that is neither a comment nor part of a text that is a statement by itself."""
    lines: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            statement.append(token)
        elif token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            if any(one.type != tokenize.STRING for one in statement):
                lines.update(line for one in statement for line in range(one.start[0], one.end[0] + 1))
            statement = []
    return len(lines)


def walk_table(rows: list[WalkRow], lines: ModelLines) -> str:
    """The rows for a person, in ns per engine-tick, then the lines."""
    out = ["  load     PEs   cycles    plain stepping skipping  plain/step       plain/skip"]
    for row in rows:
        times = f"{row.plain:8.1f} {row.stepping:8.1f} {row.skipping:8.1f}"
        step, skip = (f"{ratio:6.2f}x {ratio.about:7}" for ratio in (row.over_stepping, row.over_skipping))
        out.append(f"  {row.load:8} {row.pes:3} {row.cycles:8} {times} {step}  {skip}".rstrip())
    total = f"{lines.functions:,} in .pyx, {lines.declarations:,} in .pxd, {len(lines.files)} files"
    out.append(f"  lines of code of the plain model: {total}")
    return "\n".join(out)


def walk_goals(rows: list[WalkRow]) -> list[Goal]:
    """One for each machine: the larger of both ratios."""
    slowest = {f"{row.load}, {row.pes} PEs": max(row.over_stepping, row.over_skipping) for row in rows}
    return [Goal(f"{name}: the plain model over the fast walk", ratio, GOAL, "x") for name, ratio in slowest.items()]


if __name__ == "__main__":
    ROWS = walk_rows(quick=False)
    print(f"{walk_table(ROWS, model_lines())}\n{goal_lines(walk_goals(ROWS))}")
