"""One call of a collective: queues, a launch on every rank, and the nine arguments of each."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.ccl.contract import Algorithm, KernelArgs, Table
from kernbench.ccl.group import Group
from kernbench.common.errors import InputError, Problem
from kernbench.runtime_api import Context
from kernbench.triton_emu.errors import check_ran
from kernbench.triton_emu.launch import Launch


@dataclass(frozen=True)
class Queues:
    """How queues are built; None: as the machine's `pe.ipcq` says."""

    slots: int | None = None
    slot_bytes: int | None = None
    tier: str | None = None


@dataclass(frozen=True, eq=False)
class Call:
    """An algorithm as it is launched: the kernel of each rank gets that rank's arguments."""

    name: str
    algorithm: Algorithm
    group: Group
    count: int
    dtype: str
    slot_bytes: int
    skew: tuple[int, ...] = ()  #: by rank: elements that it loads one by one before it begins

    def arguments(self, rank: int, in_ptr: int, out_ptr: int) -> tuple[Any, ...]:
        """The nine. InputError where the algorithm makes others of them."""
        group = self.group
        sip, cube, _ = group.shape.place(rank)
        where = (sip, group.shape.sips, cube, group.shape.cubes, group.kind)
        made = self.algorithm.kernel_args(in_ptr, out_ptr, self.count, self.dtype, *where)
        if not isinstance(made, Sequence) or len(made) != len(KernelArgs._fields):
            rule = f"its kernel_args must return the nine arguments of its kernel as a tuple, and it returned {made!r}"
            raise InputError(Problem(self.name, rule))
        return tuple(made)


def on_rank(call: Call, in_ptr: int, out_ptr: int, tl: Any) -> None:
    """What is launched on each PE of a group."""
    for _ in range(call.skew[tl.rank] if call.skew else 0):
        tl.load(in_ptr, (1,), call.dtype)
    check_ran(call.algorithm.kernel(*call.arguments(tl.rank, in_ptr, out_ptr), tl), f"the kernel {call.name}")


@dataclass
class Launcher:
    """Calls collectives in a run; queues stay while calls have the same neighbours."""

    ctx: Context
    queues: Queues = field(default_factory=Queues)
    _installed: tuple[tuple[str, ...], Table] | None = None

    def install(self, call: Call) -> None:
        """Have the queues of a call, for which all launches so far must end; nothing where they are there."""
        group = call.group
        table = call.algorithm.neighbours(group.kind, group.shape)
        if self._installed != (group.pes, table):
            how = self.queues
            self.ctx.install_queues(
                table, ranks=group.pes, slots=how.slots, slot_bytes=how.slot_bytes, tier=how.tier
            )
            self._installed = group.pes, table

    def __call__(self, call: Call, x: Any, out: Any) -> Launch:
        """Launch it on all ranks and go on. `x`, `out`: tensors with a shard on each PE of the group."""
        self.install(call)
        return self.ctx.launch(call.name, on_rank, call, x, out, pes=call.group.pes)


def place_in(algorithm: Algorithm, error: BaseException | None) -> str:
    """`mine.py:21, in kernel`: the innermost frame, in the file of the algorithm's kernel, of the error or of what caused it;
    empty without one."""
    code = getattr(inspect.unwrap(algorithm.kernel), "__code__", None)
    while error is not None and code is not None:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename == code.co_filename:
                return f"{os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}"
        error = error.__cause__
    return ""
