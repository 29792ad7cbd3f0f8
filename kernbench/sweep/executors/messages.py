"""What passes between a pool and its processes."""

from __future__ import annotations

from typing import Any

import msgspec

from kernbench.sweep.points import Task
from kernbench.sweep.store.row import Row
from kernbench.sweep.work import Context


class Start(msgspec.Struct, frozen=True):
    """The first message to a process."""

    context: Context
    seconds: float | None  #: limits of a run
    memory: int | None
    allow_code: tuple[str, ...] = ()  #: what targets and machines may name
    package: str = ""  #: where the parent's kernbench is


_ENCODER = msgspec.msgpack.Encoder()
_STARTS = msgspec.msgpack.Decoder(Start)
_CONTEXTS = msgspec.msgpack.Decoder(Context)
_TASKS = msgspec.msgpack.Decoder(list[Task])
_ROWS = msgspec.msgpack.Decoder(Row)
_TEXTS = msgspec.msgpack.Decoder(str)


def encoded(value: Any) -> bytes:
    """Any message."""
    return _ENCODER.encode(value)


def read_start(data: bytes) -> Start:
    """The first message to a process."""
    return _STARTS.decode(data)


def read_context(data: bytes) -> Context:
    """What all tasks of a sweep share."""
    return _CONTEXTS.decode(data)


def read_tasks(data: bytes) -> list[Task]:
    """Tasks for a process, to be run in order."""
    return _TASKS.decode(data)


def read_row(data: bytes) -> Row:
    """A process's answer to a task."""
    return _ROWS.decode(data)


def read_text(data: bytes) -> str:
    """A process's first answer: why it cannot work; empty where it can."""
    return _TEXTS.decode(data)
