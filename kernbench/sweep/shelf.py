"""Sweeps in a store: which points a sweep has, in order, and what is needed to run one of them again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.sweep.points import Points, Task
from kernbench.sweep.spec import Goal
from kernbench.sweep.store import Store
from kernbench.sweep.work import Context


class About(msgspec.Struct, frozen=True):
    """What a store keeps of a spec."""

    names: list[str]  #: what varies
    goals: list[Goal]
    excluded: int
    invalid: int
    context: Context


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A point as the store has it."""

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
    """Put a sweep's points into the store, in place of those of an earlier sweep of its name; results stay."""
    spec = points.spec
    about = About(list(spec.names), list(spec.goals), points.excluded, points.invalid, Context.of(spec))
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
    with store.writing() as database:
        found = database.execute("SELECT points_hash FROM sweeps WHERE name = ?", (spec.name,)).fetchone()
        if found is not None and found[0] == digest:
            return
        database.execute("DELETE FROM points WHERE sweep = ?", (spec.name,))
        database.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?)", lines)
        told = msgspec.json.encode(about).decode()
        database.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", (spec.name, digest, told))


def sweep_names(store: Store) -> list[str]:
    """The sweeps of a store, by name."""
    with store.reading() as database:
        return [name for (name,) in database.execute("SELECT name FROM sweeps ORDER BY name")]


def sweep_named(store: Store, name: str | None) -> str:
    """The sweep that is meant; without a name the only one. InputError where there is none, or several."""
    there = sweep_names(store)
    if name is None and len(there) == 1:
        return there[0]
    if name in there:
        assert name is not None
        return name
    if not there:
        raise InputError(Problem(str(store.path), "there is no sweep in it"))
    if name is None:
        rule = f"it holds the sweeps {', '.join(there)}"
        raise InputError(Problem(str(store.path), rule, remedy="name one with --sweep"))
    raise InputError(Problem(str(store.path), f"there is no such sweep; there are {', '.join(there)}", "sweep", name))


def read_about(store: Store, name: str) -> About:
    """What is kept of a sweep's spec."""
    with store.reading() as database:
        (text,) = database.execute("SELECT about FROM sweeps WHERE name = ?", (name,)).fetchone()
    return msgspec.json.decode(text, type=About)


def read_lines(store: Store, name: str) -> Iterator[Line]:
    """The points of a sweep, in order."""
    decoder = msgspec.json.Decoder(Kept)
    with store.reading() as database:
        asked = "SELECT number, target, machine, task FROM points WHERE sweep = ? ORDER BY number"
        for number, target, machine, text in database.execute(asked, (name,)):
            kept = decoder.decode(text)
            yield Line(number, target, machine, tuple(kept.values), kept.task)
