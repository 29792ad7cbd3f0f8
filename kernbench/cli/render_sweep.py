"""What `kbsim sweep run` says when it is over, and before it begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.text import digits_apart, duration, short, table
from kernbench.common.units import parse_rational
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sweep.estimate import Estimate
    from kernbench.sweep.points import Points
    from kernbench.sweep.row import Row
    from kernbench.sweep.runner import Outcome
    from kernbench.sweep.store import Store

MOST_FAILURES = 5  # that are told by name


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The last parts of paths, where no two are alike; else the paths."""
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
        told = [fact for fact, wanted in zip(facts, several, strict=True) if wanted]
        told += [f"{name}={value}" for name, value in zip(names, point.values, strict=True)]
        words.setdefault(point.task.key, ", ".join(told) or facts[0])
    return words


def number_text(row: Row, name: str) -> str:
    """A number of a row, with its unit where it has one."""
    number = _number(row, name)
    return "" if number is None else duration(number) if name == "ns" else _number_text(number, name, 3)


def number_texts(rows: Sequence[Row], name: str) -> list[str]:
    """`number_text` of rows that stand in one column: with digits that tell them apart."""
    numbers = [_number(row, name) for row in rows]
    digits = digits_apart([number for number in numbers if number is not None], 3)
    return ["" if number is None else _number_text(number, name, digits) for number in numbers]


def _number(row: Row, name: str) -> float | None:
    value = getattr(row, name) if name in ("ns", "cycles") else row.metrics.get(name)
    return None if value is None else float(parse_rational(value))


def _number_text(number: float, name: str, digits: int) -> str:
    if name == "ns":
        return duration(number, max(digits, 4))
    return f"{number:.{max(digits, 4)}g}" if 0 < abs(number) < 1 else short(number, digits)


def left_text(seconds: float) -> str:
    """A time that is left: `12 s`, `3:05`, `2:10:00`."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def left_out(excluded: int, invalid: int) -> str:
    """How many combinations are no points, and why."""
    counts = {"by conditions": excluded, "as invalid": invalid}
    return f"left out: {', '.join(f'{count:,} {why}' for why, count in counts.items() if count)}"


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
    """The outcome for a person."""
    spec = points.spec
    text = Text.assemble((spec.name, "bold"), f"  {counted(outcome.points, 'point')}: {outcome.ran:,} run")
    if outcome.known:
        text.append(f", {outcome.known:,} known before")
    if outcome.failed:
        text.append(", ").append(f"{outcome.failed:,} failed", "bold red")
    yield text
    if points.excluded or points.invalid:
        yield Text(left_out(points.excluded, points.invalid), "dim")
    if outcome.stopped:
        yield Text(f"stopped by {outcome.stopped}", "bold yellow")
    names = named(points)
    rows = store.sound_rows(list(names))
    empty = sum(row.status == "done" and row.cycles == 0 for row in rows.values())
    if empty:
        yield Text(f"in {empty:,} of the points nothing ran: their cycles are 0", "bold yellow")
    yield from _best(points, names, rows, width)
    failures = [(key, row) for key in names if (row := rows.get(key)) is not None and not row.ended]
    if failures:
        yield ""
        yield Text("Failures", "bold")
        for key, row in failures[:MOST_FAILURES]:
            yield Text(f"{names[key]}: {row.status}: {row.error}".split("\n")[0])
        if len(failures) > MOST_FAILURES:
            yield Text(f"{len(failures) - MOST_FAILURES:,} more", "dim")
    yield Text(f"{store.path}: kbsim sweep report {store.path}", "dim")


def _best(points: Points, names: Mapping[str, str], rows: Mapping[str, Row], width: int) -> Iterator[RenderableType]:
    """The best by each goal, of each target by itself: their numbers are not to be compared."""
    from kernbench.sweep.best import Best

    made = table("Best", [("goal", "left"), ("", "right"), ("point", "left")])
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for goal in points.spec.goals:
        found = [Best(goal) for _ in points.spec.targets]
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
    """An estimate for a person."""
    spec = points.spec
    text = Text.assemble((spec.name, "bold"), f"  {counted(found.points, 'point')}: ")
    text.append(f"{found.known:,} known, {found.to_run:,} to run")
    if found.seconds is not None and found.to_run:
        text.append(f", about {left_text(found.seconds)}", "bold")
    yield text
    if points.excluded or points.invalid:
        yield Text(left_out(points.excluded, points.invalid))
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
        yield Text(f"by {counted(found.tried, 'point')} that were tried; nothing was written", "dim")


def _values(values: list[Any]) -> str:
    shown = [str(value) for value in values]
    return ", ".join(shown) if len(shown) <= 8 else ", ".join([*shown[:4], "...", shown[-1]])


def _range(axis: Any) -> str:
    return f"{float(axis.span.low):g} to {float(axis.span.high):g}, {axis.span.scale}"
