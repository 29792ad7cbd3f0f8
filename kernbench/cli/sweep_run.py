"""`kbsim sweep run`: what of a sweep is missing in its store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.endings import answering
from kernbench.cli.options import AllowCode, Json, Quiet, Walk
from kernbench.cli.sweep_progress import listener
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.sweep.points import Point, Points
    from kernbench.sweep.runner import Outcome, Stored
    from kernbench.sweep.spec import Spec
    from kernbench.sweep.store import Store

MOST_NOTES = 10  #: lines about damaged results
FAILED = 1  #: exit code: a point failed


class On(StrEnum):
    """Where points are run."""

    LOCAL = "local"
    DASK = "dask"


class Retry(StrEnum):
    """Which results are run again."""

    FAILED = "failed"


SpecFile = Annotated[str, typer.Argument(metavar="SPEC", help="The spec: .yaml, .yml or .json.", show_default=False)]
StoreFile = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="Where results are kept.", show_default="SPEC.sqlite, beside the spec"),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes.", show_default="one a processor")
]
Shard = Annotated[
    str | None, typer.Option("--shard", metavar="I/N", help="Run the I-th of N parts alone: 3/16.", show_default=False)
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="With --executor dask: a cluster that is there.", show_default=False),
]
ThreadCount = Annotated[
    int | None,
    typer.Option("--threads", min=1, metavar="N", help="Threads of one process instead of processes.", show_default=False),
]
RetryWhat = Annotated[Retry | None, typer.Option("--retry", help="Run what failed once more.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the spec, count its points, and estimate the time from a few.")]
Lines = Annotated[bool, typer.Option("--lines", help="Print a line of JSON for each result when it is in the store.")]


def run(
    spec: SpecFile,
    store: StoreFile = None,
    jobs: Jobs = None,
    shard: Shard = None,
    executor: Annotated[On, typer.Option("--executor", help="Processes here, or a Dask cluster.")] = On.LOCAL,
    scheduler: Scheduler = None,
    threads: ThreadCount = None,
    retry: RetryWhat = None,
    allow_code: AllowCode = None,
    walk: Walk = None,
    dry_run: DryRun = False,
    lines: Lines = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run every point of a sweep that has no result yet. Nothing that finished is lost or run again."""
    from kernbench.sweep.executors.choose import executor_for, processors
    from kernbench.sweep.load import load_spec
    from kernbench.sweep.runner import in_shard, missing, run_missing
    from kernbench.sweep.shelf import keep_sweep
    from kernbench.sweep.store import Store

    part, told = _shard(shard), (as_json, quiet or lines)
    read = load_spec(spec, allow_code=allow_code or ())
    place = Path(spec).with_suffix(".sqlite") if store is None else store
    chosen = executor_for(read, jobs=jobs, threads=threads, dask=executor is On.DASK, scheduler=scheduler)
    points = _points(read, quiet)
    mine = in_shard(points.points, part)
    if dry_run:
        return _estimated(points, place, part, threads or jobs or processors(), as_json)
    with Store.write(place) as opened:
        keep_sweep(opened, points)
        to_do = len(missing(mine, opened, retry=retry is not None))
        _warn(points, opened, quiet=any(told))
        heard_by = _listener(points, to_do, bar=not any(told), lines=lines)
        with _told_if_stopped(mine, opened, *told), heard_by as heard:
            outcome = run_missing(mine, opened, chosen, budget=read.budget, retry=retry is not None, stored=heard)
        _show(points, opened, outcome, *told)
    return FAILED if outcome.failed else output.OK


def _listener(points: Points, to_do: int, *, bar: bool, lines: bool) -> AbstractContextManager[Stored]:
    from kernbench.cli.render_sweep import named
    from kernbench.sweep.best import Best

    return listener(to_do, Best(points.spec.goals[0]), named(points, brief=True), bar=bar, lines=lines)


def _warn(points: Points, store: Store, *, quiet: bool) -> None:
    """What of the models' files is not used, and which results are run anew, as they cannot be read."""
    from kernbench.sweep.llm_target import LlmTarget

    if quiet:
        return
    for target in points.spec.targets:
        for note in target.model.notes if isinstance(target, LlmTarget) else ():
            output.note(f"warning: {note}")
    damaged = list(store.damaged.values())
    for problem in damaged[:MOST_NOTES]:
        output.note(f"warning: {replace(problem, remedy='it is run anew')}")
    if len(damaged) > MOST_NOTES:
        output.note(f"warning: {len(damaged) - MOST_NOTES} more damaged results are run anew")


def _points(spec: Spec, quiet: bool) -> Points:
    """The points; on stderr, which axes have no effect in some of them."""
    from kernbench.sweep.effects import unused_axes
    from kernbench.sweep.points import points_of

    points = points_of(spec)
    for line in () if quiet else unused_axes(points):
        output.note(f"warning: {line}")
    return points


def _show(points: Points, store: Store, outcome: Outcome, as_json: bool, quiet: bool) -> None:
    from kernbench.cli.render_sweep import outcome_dict, outcome_text

    if as_json:
        output.show_json(outcome_dict(points, store, outcome))
    elif not quiet:
        output.show(outcome_text(points, store, outcome, output.console(sys.stdout).width))


@contextmanager
def _told_if_stopped(points: list[Point], store: Store, as_json: bool, quiet: bool) -> Iterator[None]:
    """Ctrl-C and SIGTERM in here: what is stored so far is told."""
    from kernbench.sweep.runner import missing

    try:
        yield
    except KeyboardInterrupt:
        stored = len(points) - len(missing(points, store, retry=False))
        with answering(as_json):
            if as_json:
                output.show_json({"status": "interrupted", "points": len(points), "stored": stored})
            elif not quiet:
                kept = f"{stored:,} of {len(points):,} points {'has' if stored == 1 else 'have'} a result"
                output.write(f"# interrupted: {kept} in {store.path}; the same command runs the rest\n")
            raise


def _estimated(points: Points, place: Path, part: tuple[int, int], workers: int, as_json: bool) -> int:
    from kernbench.cli.render_sweep import estimate_dict, estimate_text
    from kernbench.sweep.estimate import estimate

    found = estimate(points, place, part, workers)
    if as_json:
        output.show_json(estimate_dict(points, found))
    else:
        output.show(estimate_text(points, found, output.console(sys.stdout).width))
    return output.OK


def _shard(text: str | None) -> tuple[int, int]:
    """`3/16` as (3, 16); InputError for anything else."""
    if text is None:
        return 1, 1
    first, _, last = text.partition("/")
    if all(part.isascii() and part.isdecimal() and len(part) < 7 for part in (first, last)) and 1 <= int(first) <= int(last):
        return int(first), int(last)
    raise InputError(Problem("kbsim sweep run", "it must be I/N, with I from 1 to N", "--shard", text))
