"""Sweeps in a store: the points of a sweep in order, and the data that are needed to run a point again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from kernbench.common.errors import InputError, Problem, shown
from kernbench.sweep.area import is_area
from kernbench.sweep.goals import is_constraint, is_goal
from kernbench.sweep.points import MAX_POINTS, Points, Task
from kernbench.sweep.spec import Goal
from kernbench.sweep.store import Store
from kernbench.sweep.store.tables import DamagedError, decoded, is_plain, is_text
from kernbench.sweep.work import Context


class About(msgspec.Struct, frozen=True):
    """The stored part of a spec."""

    names: list[str]  #: the names that vary
    goals: list[Goal]
    excluded: int
    invalid: int
    context: Context
    constraints: list[str] = []


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A point in the form in which the store has it."""

    values: list[object]
    task: Task


@dataclass(frozen=True, slots=True)
class Line:
    """A point of a sweep in a store."""

    number: int
    target: str
    machine: str
    values: tuple[object, ...]
    task: Task


def keep_sweep(store: Store, points: Points) -> None:
    """Store the points of a sweep in place of those of an earlier sweep with the same name; results are kept."""
    spec = points.spec
    about = About(list(spec.names), list(spec.goals), points.excluded, points.invalid, Context.of(spec), list(spec.constraints))
    lines = [
        (
            spec.name,
            point.number,
            point.task.key,
            spec.targets[point.task.target].label,
            spec.machines[point.task.machine].label,
            msgspec.json.encode(Kept(list(point.values), point.task)).decode(),
        )
        for point in points.points
    ]
    digest = hashlib.sha256(msgspec.json.encode(lines)).hexdigest()
    text = msgspec.json.encode(about).decode()
    with store.writing() as database:
        found = database.execute("SELECT points_hash, about FROM sweeps WHERE name = ?", (spec.name,)).fetchone()
        kept = database.execute("SELECT * FROM points WHERE sweep = ? ORDER BY number", (spec.name,)).fetchall()
        if found == (digest, text) and kept == lines:
            return
        database.execute("DELETE FROM points WHERE sweep = ?", (spec.name,))
        database.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?)", lines)
        database.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", (spec.name, digest, text))


def sweep_names(store: Store) -> list[str]:
    """The names of the sweeps of a store."""
    with store.reading() as database:
        names = [name for (name,) in database.execute("SELECT name FROM sweeps ORDER BY name")]
    for name in names:
        if not is_text(name):
            raise InputError(_damaged(store, "a sweep", DamagedError("name", name, "it must be text")))
    return names


def sweep_named(store: Store, name: str | None) -> str:
    """The name of the requested sweep; without a name, the name of the only sweep. InputError if there is no such sweep, or if
    there are several."""
    there = sweep_names(store)
    if name is None and len(there) == 1:
        return there[0]
    if name in there:
        assert name is not None
        return name
    if not there:
        raise InputError(Problem(str(store.path), "the store has no sweep"))
    if name is None:
        rule = f"it holds the sweeps {', '.join(there)}"
        raise InputError(Problem(str(store.path), rule, remedy="name one with --sweep"))
    raise InputError(Problem(str(store.path), f"there is no such sweep; there are {', '.join(there)}", "sweep", name))


def read_about(store: Store, name: str) -> About:
    """The stored part of the spec of a sweep. InputError if it is damaged."""
    with store.reading() as database:
        (text,) = database.execute("SELECT about FROM sweeps WHERE name = ?", (name,)).fetchone()
    try:
        about: About = decoded("about", text, About)
        if not all(map(is_text, about.names)) or len(set(about.names)) < len(about.names):
            raise DamagedError("about.names", about.names, "the names must be different texts")
        if not about.goals or any(not is_goal(goal) or way not in ("min", "max") for goal, way in about.goals):
            raise DamagedError("about.goals", about.goals, "the goals must be metrics of a result, each with min or max")
        if not all(is_constraint(text, about.names) for text in about.constraints):
            raise DamagedError(
                "about.constraints", about.constraints, "the constraints must be conditions on metrics of a result"
            )
        if about.context.area is not None and not is_area(about.context.area):
            raise DamagedError("about.context.area", about.context.area, "its figures must be numbers from 0 to 1,000,000")
        if min(about.excluded, about.invalid) < 0 or max(about.excluded, about.invalid) > MAX_POINTS:
            raise DamagedError("about", text, f"its counts must be from 0 to {MAX_POINTS}")
    except DamagedError as error:
        raise InputError(_damaged(store, name, error)) from None
    return about


def read_lines(store: Store, name: str) -> Iterator[Line]:
    """The points of a sweep, in order. InputError for rows that are not valid for a sweep."""
    about = read_about(store, name)
    digest = hashlib.sha256(b"[")
    with store.reading() as database:
        (wanted,) = database.execute("SELECT points_hash FROM sweeps WHERE name = ?", (name,)).fetchone()
        asked = "SELECT number, key, target, machine, task FROM points WHERE sweep = ? ORDER BY number"
        for i, (number, key, target, machine, text) in enumerate(database.execute(asked, (name,))):
            try:
                line = _line(about, number, key, target, machine, text)
            except DamagedError as error:
                raise InputError(_damaged(store, f"{name}: point {shown(number)}", error)) from None
            digest.update(b"," if i else b"")
            digest.update(msgspec.json.encode((name, number, key, target, machine, text)))
            yield line
    digest.update(b"]")
    if digest.hexdigest() != wanted:
        rule = "the hash of its points is wrong: some points are missing or were changed"
        raise InputError(_damaged(store, name, DamagedError("points_hash", wanted, rule)))


def _line(about: About, number: Any, key: Any, target: Any, machine: Any, text: Any) -> Line:
    if type(number) is not int or not 0 <= number < MAX_POINTS:
        raise DamagedError("number", number, f"it must be from 0 to {MAX_POINTS - 1}")
    for column, value in (("target", target), ("machine", machine)):
        if not is_text(value):
            raise DamagedError(column, value, "it must be text")
    kept: Kept = decoded("task", text, Kept)
    task, context = kept.task, about.context
    if len(kept.values) != len(about.names):
        raise DamagedError("task", text, f"it must have a value for each of the {len(about.names)} names")
    if not is_plain([kept.values, task.settings, task.params]):
        raise DamagedError("task", text, "it has a value that no axis has")
    if not (0 <= task.target < len(context.targets) and 0 <= task.machine < len(context.machines)):
        raise DamagedError("task", text, "its target and its machine must belong to the sweep")
    if task.key != key:
        raise DamagedError("key", key, f"it must be the key of its task, {task.key[:16]}")
    return Line(number, target, machine, tuple(kept.values), task)


def check_sweeps(store: Store) -> None:
    """InputError if the stored data of a sweep are damaged."""
    for name in sweep_names(store):
        for _ in read_lines(store, name):
            pass


def _damaged(store: Store, what: str, error: DamagedError) -> Problem:
    remedy = "kbsim sweep run with its spec writes its points again; results are not touched"
    return Problem(f"{store.path}: sweep {what}", error.rule, error.column, error.value, remedy)
