"""Where a trace stands in a checkpoint: what is saved of it, and whether a run can go on from there."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.sim_engine.recording.options import FOREVER, TraceOptions

REMEDY = "make the checkpoint anew with `kbsim step --save --trace`"
DIGITS = 60  # of an energy in the smallest unit, at most
Count = Annotated[int, msgspec.Meta(ge=0, lt=FOREVER)]
Whole = Annotated[str, msgspec.Meta(pattern=rf"^[0-9]{{1,{DIGITS}}}$")]  #: an integer past 64 bits
Column = list[Count]


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Those that the trace began with."""

    level: str
    window: int
    only: tuple[str, ...]
    cycles: tuple[int, int] | None


class WindowState(msgspec.Struct, forbid_unknown_fields=True):
    """Where the windows stand: the totals at the last end of one."""

    totals: tuple[list[Column], list[Column], list[Column]]  #: of DMA engines, other engines, resources
    banks: list[tuple[Column, Column]]  #: of each scratchpad
    energy: tuple[Whole, Whole, Whole]
    spent: tuple[Whole, Whole, Whole, Whole, Whole, Whole]
    saturated: Column
    asleep: list[str]


class TraceState(msgspec.Struct, forbid_unknown_fields=True):
    """All that is saved."""

    options: Options
    records: str  #: of the core that are not written, as base64
    lines: Count
    tokens: list[tuple[Count, Annotated[int, msgspec.Meta(ge=-1, lt=FOREVER)]]]  #: entries left and first start of each group
    edge: Count  #: the next end of a window [cycle]
    counted: Count
    windows: WindowState
    file_bytes: Count | None = None  #: of the trace's file

    def trace_options(self) -> TraceOptions:
        """As a trace takes them."""
        given = self.options
        return TraceOptions(given.level, given.window, given.only, given.cycles)

    def check_place(self, cycle: int) -> None:
        """InputError where a trace of a run that stands at that cycle does not stand so."""
        window = self.options.window
        if self.edge != (cycle // window + 1) * window or self.counted != cycle:
            raise damaged(f"it is of cycle {self.counted} in a window up to {self.edge}, and the run stands at {cycle}")

    def record_bytes(self) -> bytes:
        """The records; InputError where they are none."""
        try:
            return base64.b64decode(self.records, validate=True)
        except (binascii.Error, ValueError):
            raise damaged("its records are no base64") from None


def damaged(why: str) -> InputError:
    """The refusal of where a trace stands."""
    return InputError(Problem("checkpoint", f"where its trace stands is damaged: {why}", remedy=REMEDY))


def read_state(data: bytes) -> TraceState:
    """Where a trace stands, from the bytes in a checkpoint; InputError where they are not that."""
    try:
        state = msgspec.json.decode(data, type=TraceState)
        state.trace_options()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InputError) as error:
        raise damaged(str(error)[:200]) from None
    return state


def totals_of(name: str, saved: Sequence[Any], now: Any) -> Any:
    """Saved totals as an array of the form of those of now, which are none of them less; InputError where they do not fit."""
    if len(saved) != len(now) or any(np.size(row) != np.size(one) for row, one in zip(saved, now, strict=True)):
        raise damaged(f"its totals of {name} are those of another machine")
    found = np.array(saved, dtype=np.int64).reshape(now.shape)
    if (found > now).any():
        raise damaged(f"its totals of {name} are above those of the run")
    return found
