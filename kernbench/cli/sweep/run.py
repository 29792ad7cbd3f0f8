"""`kbsim sweep run`: runs the points of a sweep that its store does not have."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from kernbench.cli import output, widgets
from kernbench.cli.endings import answering
from kernbench.cli.options import AllowCode, Json, Quiet, Walk
from kernbench.cli.target import note_uncalibrated
from kernbench.cli.text import BAD, WAIT, digits_apart, duration, scaled, short, table
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

    from kernbench.sweep.points import Point, Points
    from kernbench.sweep.report.analysis import Best
    from kernbench.sweep.runner import Estimate, Executor, Outcome, Stored
    from kernbench.sweep.search import Search, Searched
    from kernbench.sweep.spec import Spec
    from kernbench.sweep.store import Store
    from kernbench.sweep.store.tables import Row


MAX_NOTES = 10  #: lines about damaged results
FAILED = 1  #: exit code: a point failed


class On(StrEnum):
    """Where points run."""

    LOCAL = "local"
    DASK = "dask"


class Retry(StrEnum):
    """Which results to run again."""

    FAILED = "failed"


SpecFile = Annotated[str, typer.Argument(metavar="SPEC", help="The sweep file: .yaml, .yml or .json.", show_default=False)]
StoreFile = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="The store for the results.", show_default="SPEC.sqlite, beside the spec"),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Number of processes.", show_default="one a processor")
]
Shard = Annotated[str | None, typer.Option("--shard", metavar="I/N", help="Run only shard I of N shards, such as "
    "3/16.", show_default=False)]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", metavar="ADDRESS", help="With --executor dask: the address of the scheduler of a running cluster.",
        show_default=False
    ),
]
ThreadCount = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, metavar="N", help="Use N threads of one process instead of several processes.", show_default=False
    ),
]
RetryWhat = Annotated[Retry | None, typer.Option("--retry", help="Run failed points again.", show_default=False)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check the sweep file, count the points, and estimate the total time from a "
        "few points.")
]
Lines = Annotated[bool, typer.Option("--lines", help="Print each result as a line of JSON when it is stored.")]


def run(
    spec: SpecFile,
    store: StoreFile = None,
    jobs: Jobs = None,
    shard: Shard = None,
    executor: Annotated[On, typer.Option("--executor", help="Run in local processes or on a Dask cluster.")] = On.LOCAL,
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
    """Run all points of a sweep that have no result yet. Finished points are kept and not run again."""
    from kernbench.sweep.executors.choice import executor_for, processors
    from kernbench.sweep.runner import in_shard, missing, run_missing
    from kernbench.sweep.spec.load import load_spec
    from kernbench.sweep.store import Store
    from kernbench.sweep.store.sweeps import keep_sweep

    part, how = _shard(shard), (as_json, quiet or lines)
    read = load_spec(spec, allow_code=allow_code or ())
    place = Path(spec).with_suffix(".sqlite") if store is None else store
    if read.search is not None:
        _check_search(read, shard, dry_run, executor)
    chosen = executor_for(read, jobs=jobs, threads=threads, dask=executor is On.DASK, scheduler=scheduler)
    if read.search is not None:
        return _searched(read, place, chosen, retry is not None, lines, *how)
    points = _points(read, quiet)
    mine = in_shard(points.points, part)
    if dry_run:
        return _estimated(points, place, part, threads or jobs or processors(), as_json)
    with Store.write(place) as opened:
        keep_sweep(opened, points)
        to_do = len(missing(mine, opened, retry=retry is not None))
        _warn(points, opened, quiet=any(how))
        heard_by = _listener(points, to_do, bar=not any(how), lines=lines)
        with _reported_if_stopped(mine, opened, *how), heard_by as heard:
            outcome = run_missing(mine, opened, chosen, budget=read.budget, retry=retry is not None, stored=heard)
        _show(points, opened, outcome, *how)
    return FAILED if outcome.failed else output.OK


def _check_search(spec: Spec, shard: str | None, dry_run: bool, executor: On) -> None:
    """InputError for options that a search does not have."""
    remedy = f"leave it out, or remove search from {spec.name}"
    for option, given, why in (
        ("--shard", shard is not None, "the points of a search depend on earlier results, so it has no shards"),
        ("--dry-run", dry_run, "the points of a search are not known before it runs"),
        ("--executor", executor is On.DASK, "a search runs in processes or threads of this machine"),
    ):
        if given:
            raise InputError(Problem("kbsim sweep run", why, option, remedy=remedy))


def _searched(spec: Spec, place: Path, executor: Executor, retry: bool, lines: bool, as_json: bool, quiet: bool) -> int:
    """Run a search, and show its best points."""
    from kernbench.sweep.points import unused_axes
    from kernbench.sweep.report.analysis import Best
    from kernbench.sweep.search import Search
    from kernbench.sweep.store import Store

    with _removed_if_empty(place), Store.write(place) as opened:
        heard_by = listener(0, Best(spec.goals[0]), {}, bar=False, lines=lines)
        with heard_by as heard:
            search = Search(spec, opened, executor, retry=retry, stored=heard)
            with _search_reported_if_stopped(search, as_json, quiet):
                found = search.run()
        for line in () if quiet or as_json else unused_axes(found.points):
            output.note(f"warning: {line}")
        if as_json:
            output.show_json(search_dict(found, opened))
        elif not quiet:
            output.show(search_text(found, opened, output.console(sys.stdout).width))
    return FAILED if found.outcome.failed else output.OK


@contextmanager
def _removed_if_empty(place: Path) -> Iterator[None]:
    """Remove a new store if the spec is refused before the first result: a later report would show a sweep without points."""
    existed = os.path.exists(place)
    try:
        yield
    except InputError:
        from kernbench.sweep.store import Store

        if not existed:
            with Store.read(place) as opened:
                empty = not opened.count()
            if empty:
                place.unlink()
        raise


@contextmanager
def _search_reported_if_stopped(search: Search, as_json: bool, quiet: bool) -> Iterator[None]:
    from kernbench.sweep.runner import missing

    try:
        yield
    except KeyboardInterrupt:
        points = search.searched.points.points
        stored = len(points) - len(missing(points, search.store, retry=False))
        with answering(as_json):
            if as_json:
                output.show_json({"status": "interrupted", "proposed": search.searched.proposals, "stored": stored})
            elif not quiet:
                kept = f"{counted(stored, 'point')} of the search {'has' if stored == 1 else 'have'} a result"
                output.write(f"# interrupted: {kept} in {search.store.path}; the same command goes on\n")
            raise


def search_dict(found: Searched, store: Store) -> dict[str, Any]:
    """The outcome of a search as JSON."""
    answer = outcome_dict(found.points, store, found.outcome)
    answer |= {"proposed": found.proposals, "pruned": found.pruned}
    largest = [{**place, "largest": value} for place, value in found.largest]
    return answer | ({"largest": largest} if found.largest else {})


def search_text(found: Searched, store: Store, width: int) -> Iterator[RenderableType]:
    """The outcome of a search as text."""
    pruned = f", {found.pruned:,} not run, because their lower bound is worse than the best" if found.pruned else ""
    yield widgets.Text(f"searched {counted(found.proposals, 'proposal')}{pruned}")
    if found.largest:
        yield from _largest(found)
    yield from outcome_text(found.points, store, found.outcome, width)


def _largest(found: Searched) -> Iterator[RenderableType]:
    """The largest values that were found."""
    from kernbench.sweep.spec import Largest

    search = found.points.spec.search
    assert isinstance(search, Largest)
    names = list(found.largest[0][0])
    yield widgets.Text(f"largest {search.axis} with {search.meets}")
    made = table("Largest", [*((name, "right") for name in names), (search.axis, "right")])
    for place, value in found.largest:
        made.add_row(*(str(place[name]) for name in names), "none" if value is None else str(value))
    yield made


def _listener(points: Points, to_do: int, *, bar: bool, lines: bool) -> AbstractContextManager[Stored]:
    from kernbench.sweep.report.analysis import Best

    best = Best(points.spec.goals[0], within_constraints(points))
    return listener(to_do, best, named(points, brief=True), bar=bar, lines=lines)


def _warn(points: Points, store: Store, *, quiet: bool) -> None:
    """Report chips without calibration, which keys of the models' files are not used, and which unreadable results are run
    again.
    """
    if quiet:
        return
    for machine in points.spec.machines:
        note_uncalibrated(machine.at(())[0])
    for target in points.spec.targets:
        for note in target.notes:
            output.note(f"warning: {note}")
    damaged = list(store.damaged.values())
    for problem in damaged[:MAX_NOTES]:
        output.note(f"warning: {msgspec.structs.replace(problem, remedy='the point is run again')}")
    if len(damaged) > MAX_NOTES:
        output.note(f"warning: {len(damaged) - MAX_NOTES} more damaged results are run again")


def _points(spec: Spec, quiet: bool) -> Points:
    """The points. Reports on stderr which axes have no effect in some of them."""
    from kernbench.sweep.points import points_of, unused_axes

    points = points_of(spec)
    for line in () if quiet else unused_axes(points):
        output.note(f"warning: {line}")
    return points


def _show(points: Points, store: Store, outcome: Outcome, as_json: bool, quiet: bool) -> None:

    if as_json:
        output.show_json(outcome_dict(points, store, outcome))
    elif not quiet:
        output.show(outcome_text(points, store, outcome, output.console(sys.stdout).width))


@contextmanager
def _reported_if_stopped(points: list[Point], store: Store, as_json: bool, quiet: bool) -> Iterator[None]:
    """Context in which Ctrl-C and SIGTERM report what is stored so far."""
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
    from kernbench.sweep.runner import estimate

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


BAR = 20  # characters
RATE_SECONDS = 5.0  # time over which the rate is averaged


class SweepBar:
    """The number of points stored, out of the missing ones."""

    def __init__(self, total: int, best: Best, names: Mapping[str, str]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.best, self.names = best, names
        self.done, self.failed = 0, 0
        self.seen = [(time.monotonic(), 0)]
        columns = (BarColumn(bar_width=BAR), TextColumn("{task.description}", markup=False))
        self.bar: Progress = Progress(*columns, console=output.console(sys.stderr), transient=True, auto_refresh=False)
        self.task: TaskID = self.bar.add_task(self.text(total), total=total)
        self.total = total
        self.bar.start()

    def __call__(self, rows: Sequence[Row]) -> None:
        """Some are stored."""
        self.done += len(rows)
        self.failed += sum(not row.ended for row in rows)
        self.seen.append((time.monotonic(), self.done))
        while len(self.seen) > 2 and self.seen[-1][0] - self.seen[0][0] > RATE_SECONDS:
            del self.seen[0]
        self.bar.update(self.task, completed=self.done, description=self.text(self.total), refresh=True)

    def text(self, total: int) -> str:
        """The text beside the bar."""

        (since, before), (now, done) = self.seen[0], self.seen[-1]
        rate = (done - before) / (now - since) if now > since else 0.0
        parts = [f"{self.done:,} of {total:,}"]
        if rate:
            parts += [f"{rate:,.1f}/s", f"{left_text((total - self.done) / rate)} left"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.best.row is not None:
            name, value = self.best.goal[0], number_text(self.best.row, self.best.goal[0])
            parts.append(f"best {name} {value}: {self.names.get(self.best.row.key, '')}")
        line, room = ", ".join(parts), output.console(sys.stderr).width - BAR - 2
        return line if len(line) <= room else line[: room - 3] + "..."


@contextmanager
def listener(
    total: int, best: Best, names: Mapping[str, str], *, bar: bool, lines: bool
) -> Iterator[Callable[[Sequence[Row]], None]]:
    """The report of stored results: a bar on a terminal, and with `lines` one line of JSON for each on stdout."""
    drawn = SweepBar(total, best, names) if bar and total and sys.stderr is not None and sys.stderr.isatty() else None

    def heard(rows: Sequence[Row]) -> None:
        for row in rows:
            best.offer(row)
        if lines:
            records = ({"key": row.key, "status": row.status, "cycles": row.cycles, "error": row.error} for row in rows)
            output.write("".join(json.dumps(one) + "\n" for one in records))
        if drawn is not None:
            drawn(rows)

    try:
        yield heard
    finally:
        if drawn is not None:
            drawn.bar.stop()


MAX_FAILURES = 5  # most names in the message


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The last components of paths if they are all different, else the paths."""
    last = {name: name.rpartition(".")[2] for name in names}
    return last if len(set(last.values())) == len(last) else {name: name for name in names}


def named(points: Points, *, brief: bool = False) -> Mapping[str, str]:
    """The points in words, by the keys of their results; `brief`: axes by the last parts of their paths."""
    spec = points.spec
    names = [short_names(spec.names)[name] if brief else name for name in spec.names]
    several = [len(spec.targets) > 1, len(spec.machines) > 1]
    words: dict[str, str] = {}
    for point in points.points:
        facts = (spec.targets[point.task.target].label, spec.machines[point.task.machine].label)
        parts = [fact for fact, wanted in zip(facts, several, strict=True) if wanted]
        parts += [f"{name}={value}" for name, value in zip(names, point.values, strict=True)]
        words.setdefault(point.task.key, ", ".join(parts) or facts[0])
    return words


def within_constraints(points: Points) -> Callable[[Row], bool]:
    """Whether the result of a point satisfies the constraints of its sweep."""
    from kernbench.sweep.goals import keeps

    constraints, names = points.spec.constraints, points.spec.names
    if not constraints:
        return lambda row: True
    values = {point.task.key: point.values for point in points.points}
    return lambda row: keeps(row, dict(zip(names, values[row.key], strict=True)), constraints)


def number_text(row: Row, name: str) -> str:
    """A number of a row, with its unit, if it has one."""
    number = _number(row, name)
    return "" if number is None else duration(number) if name == "ns" else _number_text(number, name, 3)


def number_texts(rows: Sequence[Row], name: str) -> list[str]:
    """`number_text` for the rows of one column, with enough digits to distinguish them."""
    numbers = [_number(row, name) for row in rows]
    digits = digits_apart([number for number in numbers if number is not None], 3)
    return ["" if number is None else _number_text(number, name, digits) for number in numbers]


def _number(row: Row, name: str) -> float | None:
    from kernbench.sweep.goals import goal_value

    value = goal_value(row, name)
    return None if value is None else float(value)


def _number_text(number: float, name: str, digits: int) -> str:
    if name == "ns":
        return duration(number, max(digits, 4))
    if name == "energy_pj":
        return scaled(number, ("pJ", "nJ", "uJ", "mJ", "J"), digits)
    if name == "dram_bytes":
        return scaled(number, ("B", "kB", "MB", "GB", "TB"), digits)
    return f"{number:.{max(digits, 4)}g}" if 0 < abs(number) < 1 else short(number, digits)


def left_text(seconds: float) -> str:
    """A time that is left: `12 s`, `3:05`, `2:10:00`."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def left_out(excluded: int, invalid: int) -> str:
    """How many combinations are not points, and why."""
    counts = {"by conditions": excluded, "as invalid": invalid}
    return f"left out: {', '.join(f'{count:,} {why}' for why, count in counts.items() if count)}"


def broken_constraints(broken: int, points: int, constraints: Sequence[str]) -> str:
    """How many points break a constraint."""
    verb = "breaks" if broken == 1 else "break"
    return f"{broken:,} of {counted(points, 'point')} {verb} a constraint: {', '.join(constraints)}"


def outcome_dict(points: Points, store: Store, outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON."""
    return {
        "sweep": points.spec.name,
        "store": str(store.path),
        "points": outcome.points,
        "known": outcome.known,
        "ran": outcome.ran,
        "failed": outcome.failed,
        "statuses": dict(sorted(outcome.by_status.items())),
        "stopped": outcome.stopped or None,
    }


def outcome_text(points: Points, store: Store, outcome: Outcome, width: int) -> Iterator[RenderableType]:
    """The outcome as text."""
    spec = points.spec
    text = widgets.Text.assemble((spec.name, "bold"), f"  {counted(outcome.points, 'point')}: {outcome.ran:,} run")
    if outcome.known:
        text.append(f", {outcome.known:,} known before")
    if outcome.failed:
        text.append(", ").append(f"{outcome.failed:,} failed", f"bold {BAD}")
    yield text
    if points.excluded or points.invalid:
        yield widgets.Text(left_out(points.excluded, points.invalid), "dim")
    if outcome.stopped:
        yield widgets.Text(f"stopped by {outcome.stopped}", f"bold {WAIT}")
    names = named(points)
    rows = store.sound_rows(list(names))
    empty = sum(row.status == "done" and row.cycles == 0 for row in rows.values())
    if empty:
        yield widgets.Text(f"in {empty:,} of the points nothing ran: their cycles are 0", f"bold {WAIT}")
    allowed = within_constraints(points)
    broken = sum(row.ended and not allowed(row) for row in rows.values())
    if broken:
        yield widgets.Text(broken_constraints(broken, outcome.points, spec.constraints), WAIT)
    yield from _best(points, names, rows, width)
    failures = [(key, row) for key in names if (row := rows.get(key)) is not None and not row.ended]
    if failures:
        yield ""
        yield widgets.Text("Failures", "bold")
        for key, row in failures[:MAX_FAILURES]:
            yield widgets.Text(f"{names[key]}: {row.status}: {row.error}".split("\n")[0])
        if len(failures) > MAX_FAILURES:
            yield widgets.Text(f"{len(failures) - MAX_FAILURES:,} more", "dim")
    yield widgets.Text(f"{store.path}: kbsim sweep report {store.path}", "dim")


def _best(points: Points, names: Mapping[str, str], rows: Mapping[str, Row], width: int) -> Iterator[RenderableType]:
    """The best point for each goal and target. Numbers of different targets are not comparable."""
    from kernbench.sweep.report.analysis import Best

    allowed = within_constraints(points)
    made = table("Best", [("goal", "left"), ("", "right"), ("point", "left")])
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for goal in points.spec.goals:
        found = [Best(goal, allowed) for _ in points.spec.targets]
        for point in points.points:
            if point.task.key in rows:
                found[point.task.target].offer(rows[point.task.key])
        for best in found:
            if best.row is not None:
                made.add_row(f"{goal[1]} {goal[0]}", number_text(best.row, goal[0]), names[best.row.key])
    if made.row_count:
        yield made


def estimate_dict(points: Points, found: Estimate) -> dict[str, Any]:
    """An estimate as JSON."""
    return {
        "sweep": points.spec.name,
        "points": found.points,
        "excluded": points.excluded,
        "invalid": points.invalid,
        "known": found.known,
        "to_run": found.to_run,
        "tried": found.tried,
        "seconds": found.seconds,
    }


def estimate_text(points: Points, found: Estimate, width: int) -> Iterator[RenderableType]:
    """An estimate as text."""
    spec = points.spec
    text = widgets.Text.assemble((spec.name, "bold"), f"  {counted(found.points, 'point')}: ")
    text.append(f"{found.known:,} known, {found.to_run:,} to run")
    if found.seconds is not None and found.to_run:
        text.append(f", about {left_text(found.seconds)}", "bold")
    yield text
    if points.excluded or points.invalid:
        yield widgets.Text(left_out(points.excluded, points.invalid))
    made = table("Axes", [("axis", "left"), ("values", "right"), ("", "left")])
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for fact, labels in (("target", spec.targets), ("machine", spec.machines)):
        made.add_row(fact, str(len(labels)), _values([one.label for one in labels]))
    for axis in spec.axes:
        for k, name in enumerate(axis.names):
            values = [level[k] for level in axis.levels]
            made.add_row(name, str(len(values)) if axis.span is None else "drawn", _values(values) if values else _range(axis))
    yield made
    if found.tried:
        yield widgets.Text(f"the time is estimated from {counted(found.tried, 'run')}; nothing was written", "dim")


def _values(values: list[Any]) -> str:
    shown = [str(value) for value in values]
    return ", ".join(shown) if len(shown) <= 8 else ", ".join([*shown[:4], "...", shown[-1]])


def _range(axis: Any) -> str:
    return f"{float(axis.span.low):g} to {float(axis.span.high):g}, {axis.span.scale}"
