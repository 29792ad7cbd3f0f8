"""The keys `axes` and `zip` of a spec: parameters and the values that they take."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError, shown
from kernbench.common.units import plain_number
from kernbench.config.overrides import parse_overrides
from kernbench.config.places import KEY, PathLike, normal_path
from kernbench.sweep.axes import MAX_LEVELS, Axis, Span
from kernbench.sweep.spec.reader import Reader

RANGE_KEYS = ("from", "to", "step", "count", "scale", "multiple_of")


def read_axes(read: Reader, sampled: bool) -> tuple[Axis, ...]:
    """The axes of `axes`, then the groups of `zip`. `sampled`: a range need not list its values."""
    found = [
        axis
        for name, given in read.mapping(("axes",)).items()
        if (axis := _axis(read, str(name), given, ("axes", name), sampled)) is not None
    ]
    for i in range(len(read.items(("zip",)))):
        group = _group(read, ("zip", i))
        if group is not None:
            found.append(group)
    seen: dict[str, PathLike] = {}  # by name: the paths that earlier axes set
    for axis in found:
        for name in axis.names:
            if name in seen:
                read.refuse(axis.place(name), "two axes have this name")
            seen[name] = _check_earlier(read, axis, name, seen)
    return tuple(found)


def _check_earlier(read: Reader, axis: Axis, name: str, seen: Mapping[str, PathLike]) -> PathLike:
    """The path that an axis sets. An axis is refused if it would overwrite what an earlier axis sets."""
    try:
        path = normal_path(parse_overrides({name: None})[0].path)
    except InputError:  # the name is not a path; the points report the error
        return ()
    for other, there in seen.items():
        if other != name and there[: len(path)] == path:
            if there == path:
                read.refuse(axis.place(name), f"it sets the same value as the axis {other}")
            else:
                rule = f"it sets the whole section {name}, so the value of the axis {other} would be lost"
                read.refuse(axis.place(name), rule, remedy="write this axis first")
    return path


def plain(value: Any) -> Any:
    """A value as JSON; exact rationals are numbers or `p/q`."""
    if isinstance(value, Fraction):
        return plain_number(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _axis(read: Reader, name: str, given: Any, path: PathLike, sampled: bool) -> Axis | None:
    if isinstance(given, Mapping):
        span = _span(read, path, sampled)
        if span is None:
            return None
        if sampled and not (span.step or span.count):
            return Axis((name,), span=span, path=path)
        try:
            return Axis((name,), tuple((value,) for value in span.levels()), path=path)
        except ValueError as error:
            read.refuse(path, str(error))
            return None
    values = _values(read, given, path)
    return None if values is None else Axis((name,), tuple((value,) for value in values), path=path)


def _group(read: Reader, path: PathLike) -> Axis | None:
    columns: dict[str, list[Any]] = {}
    for name, given in read.mapping(path).items():
        values = _values(read, given, (*path, name))
        if values is None:
            return None
        columns[str(name)] = values
    if not columns:
        read.refuse(path, "it must be a mapping of axes whose values change together")
        return None
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        read.refuse(path, f"all its lists must have the same length: {each}")
        return None
    return Axis(tuple(columns), tuple(zip(*columns.values(), strict=True)), path=path)


def _values(read: Reader, given: Any, path: PathLike) -> list[Any] | None:
    if not isinstance(given, (list, tuple)):
        one = f"write [{shown(given)}] for one value" if isinstance(given, (int, str, Fraction)) else ""
        read.refuse(path, "it must be a list of values, or a range {from: ..., to: ...}", given, one)
        return None
    if not given:
        read.refuse(path, "it must have at least one value")
        return None
    if len(given) > MAX_LEVELS:
        read.refuse(path, f"it has {len(given)} values, and an axis has at most {MAX_LEVELS}")
        return None
    values = [plain(value) for value in given]
    for i, value in enumerate(values):
        if value in values[:i] and type(value) in [type(other) for other in values[:i] if other == value]:
            read.refuse((*path, i), "this value is twice in the list", value)
            return None
    return values


def _span(read: Reader, path: PathLike, sampled: bool) -> Span | None:
    given = read.keys(path, RANGE_KEYS)
    numbers: dict[str, Any] = {}
    for key in ("from", "to", "step"):
        value = given.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, Fraction))):
            read.refuse((*path, key), "it must be a number", value)
            return None
        numbers[key] = value
    low, high, step = numbers["from"], numbers["to"], numbers["step"]
    if low is None or high is None:
        read.refuse(path, "a range must have from and to")
        return None
    if high < low:
        read.refuse((*path, "to"), f"it must be at least from = {plain(low)}", plain(high))
        return None
    scale = read.choice((*path, "scale"), ("linear", "log"), "linear")
    if scale == "log" and low <= 0:
        read.refuse((*path, "from"), "a log range must begin above 0", plain(low))
        return None
    if step is not None and (step <= 0 or scale == "log"):
        read.refuse(
            (*path, "step"), "it must be greater than 0; a range with scale log needs a count instead of a step", plain(step)
        )
        return None
    count = read.integer((*path, "count"), 1, MAX_LEVELS)
    multiple = read.integer((*path, "multiple_of"), 1)
    if count is not None and step is not None:
        read.refuse((*path, "count"), "a range must have either a step or a count, not both", count)
        return None
    span = Span(low, high, scale, step, count, multiple)  # type: ignore[arg-type]
    if not sampled and not span.is_grid:
        rule = "a range with numbers that are not integers must have a step or a count"
        read.refuse((*path, KEY), rule, remedy="add step or count, or sample the axes")
        return None
    return span
