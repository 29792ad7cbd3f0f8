"""Kernels that exchange data through memory. Each has a wait or message that `right` keeps and a race leaves out.

Without delays, all of them give the right tensors: a test that runs them once finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench.runtime_api import Bench, bench

N = 256  # elements of a row
ROW = 4 * N  # [B]
WORD = (1,)
SPIN = 400  # loads of a flag, at most


def ring(ranks: int) -> tuple[list[str], dict[Any, Any]]:
    links = {r: {(0, "E"): ((r + 1) % ranks, "W"), (0, "W"): ((r - 1) % ranks, "E")} for r in range(ranks)}
    return [f"sip0.cube0.pe{i}" for i in range(ranks)], links


def made(name: str, kernel: Callable[..., None], right: bool, ranks: int = 2, slots: int | None = 2, rows: int = 8) -> Bench:
    """A bench that runs `kernel(x, out, right, tl)` on a ring of PEs."""

    @bench(name=f"{name}_{'right' if right else 'wrong'}", description=name, machine="single_cube")
    def run(ctx: Any) -> None:
        pes, links = ring(ranks)
        x = ctx.from_numpy(np.arange(rows * N, dtype=np.int32).reshape(rows, N), name="x")
        out = ctx.zeros((rows, N), "i32", name="out")
        ctx.install_queues(links, ranks=pes, slots=slots)
        ctx.launch(name, lambda a, b, tl: kernel(a, b, right, tl), x, out, pes=pes)

    return run


def row(tl: Any, at: int, **how: Any) -> Any:
    return tl.load(at, (N,), "i32", **how)


def note(tl: Any, value: int = 1) -> Any:
    return tl.full(WORD, value, "i32")


def busy(tl: Any, x: Any, times: int) -> None:
    """Work that takes longer than what the other PE does."""
    for _ in range(times):
        row(tl, x)


def message_before_store_ends(x: Any, out: Any, right: bool, tl: Any) -> None:
    if tl.rank == 0:
        stored = tl.store(out, row(tl, x) + 1)
        if right:
            tl.wait(stored)
        tl.send("E", note(tl))
    else:
        tl.recv("W", WORD, "i32")
        tl.store(out + ROW, row(tl, out))


def two_writers(x: Any, out: Any, right: bool, tl: Any) -> None:
    if right and tl.rank == 1:
        tl.recv("W", WORD, "i32")
    busy(tl, x, 10 * tl.rank)
    stored = tl.store(out, row(tl, x) * (tl.rank + 1))
    if right and tl.rank == 0:
        tl.wait(stored)
        tl.send("E", note(tl))


def read_without_message(x: Any, out: Any, right: bool, tl: Any) -> None:
    if tl.rank == 0:
        tl.wait(tl.store(out, row(tl, x) + 5))
        if right:
            tl.send("E", note(tl))
    else:
        busy(tl, x, 12)
        if right:
            tl.recv("W", WORD, "i32")
        tl.store(out + ROW, row(tl, out))


def overwritten_before_read(x: Any, out: Any, right: bool, tl: Any) -> None:
    if tl.rank == 0:
        if right:
            tl.recv("E", WORD, "i32")
        else:
            busy(tl, x, 12)
        tl.store(x, row(tl, x + ROW))
    else:
        seen = row(tl, x)
        tl.store(out, seen)
        if right:
            tl.send("W", note(tl))


def flag_before_data(x: Any, out: Any, right: bool, tl: Any) -> None:
    flag = out + 7 * ROW
    if tl.rank == 0:
        stored = tl.store(out, row(tl, x) + 3)
        if right:
            tl.wait(stored)
        tl.store(flag, note(tl, 9))
    else:
        for _ in range(SPIN):
            if int(tl.load(flag, WORD, "i32")[0]) == 9:
                break
        tl.store(out + ROW, row(tl, out))


def counter(x: Any, out: Any, right: bool, tl: Any) -> None:
    if right and tl.rank == 1:
        tl.recv("W", WORD, "i32")
    busy(tl, x, 10 * tl.rank)
    stored = tl.store(out, tl.load(out, WORD, "i32") + 1)
    if right and tl.rank == 0:
        tl.wait(stored)
        tl.send("E", note(tl))


def neighbour_row(x: Any, out: Any, right: bool, tl: Any) -> None:
    tl.wait(tl.store(out + ROW * tl.rank, row(tl, x + ROW * tl.rank) * 2))
    if right:
        tl.send("E", note(tl))
        tl.recv("W", WORD, "i32")
    else:
        busy(tl, x, 10)
    before = (tl.rank - 1) % tl.world_size
    tl.store(out + ROW * (4 + tl.rank), row(tl, out + ROW * before))


def buffer_reused(x: Any, out: Any, right: bool, tl: Any) -> None:
    """A producer fills one buffer again and again; the consumer says when it has read it."""
    for turn in range(3):
        if tl.rank == 0:
            if turn and right:
                tl.recv("E", WORD, "i32")
            elif turn:
                busy(tl, x, 8)
            tl.wait(tl.store(out, row(tl, x + ROW * turn)))
            tl.send("E", note(tl))
        else:
            tl.recv("W", WORD, "i32")
            tl.wait(tl.store(out + ROW * (turn + 1), row(tl, out)))
            if right and turn < 2:
                tl.send("W", note(tl))


def message_over_a_third(x: Any, out: Any, right: bool, tl: Any) -> None:
    """Rank 0 tells rank 1, which tells rank 2, which reads what rank 0 wrote."""
    if tl.rank == 0:
        stored = tl.store(out, row(tl, x) * 7)
        if right:
            tl.wait(stored)
        tl.send("E", note(tl))
    elif tl.rank < 3:
        tl.recv("W", WORD, "i32")
        if tl.rank == 1:
            tl.send("E", note(tl))
        else:
            tl.store(out + ROW, row(tl, out))


# Collectives through memory.


def gather_without_last_message(x: Any, out: Any, right: bool, tl: Any) -> None:
    """All-gather: each rank writes its row, tells all, and reads all rows."""
    ranks = tl.world_size
    stored = tl.store(out + ROW * tl.rank, row(tl, x + ROW * tl.rank))
    if right:
        tl.wait(stored)
    for _ in range(ranks - 1):  # a message goes around
        tl.send("E", note(tl))
        tl.recv("W", WORD, "i32")
    total = row(tl, out)
    for other in range(1, ranks):
        total = total + row(tl, out + ROW * other) * (other + 1)
    tl.store(out + ROW * (4 + tl.rank), total)


def barrier_short_of_a_round(x: Any, out: Any, right: bool, tl: Any) -> None:
    """A barrier of a ring needs a round of as many messages as there are other ranks."""
    tl.wait(tl.store(out + ROW * tl.rank, row(tl, x + ROW * tl.rank) + 1))
    for _ in range(tl.world_size - 1 if right else 1):
        tl.send("E", note(tl))
        tl.recv("W", WORD, "i32")
    far = (tl.rank + 1) % tl.world_size
    tl.store(out + ROW * (4 + tl.rank), row(tl, out + ROW * far))


def broadcast_read_early(x: Any, out: Any, right: bool, tl: Any) -> None:
    """A chain: each rank copies the row of the one before and tells the next."""
    if tl.rank:
        tl.recv("W", WORD, "i32")
        got = row(tl, out + ROW * (tl.rank - 1))
    else:
        got = row(tl, x) * 3
    stored = tl.store(out + ROW * tl.rank, got)
    if right:
        tl.wait(stored)
    if tl.rank + 1 < tl.world_size:
        tl.send("E", note(tl))


def reduce_reads_one_too_early(x: Any, out: Any, right: bool, tl: Any) -> None:
    """The root adds the rows of all; it hears of its direct neighbours alone."""
    last = tl.world_size - 1
    tl.wait(tl.store(out + ROW * tl.rank, row(tl, x + ROW * tl.rank) * 2))
    if right:
        if tl.rank < last:
            tl.recv("E", WORD, "i32")
        if tl.rank:
            tl.send("W", note(tl))
    elif tl.rank == 1:
        tl.send("W", note(tl))
    elif tl.rank == 0:
        tl.recv("E", WORD, "i32")
        busy(tl, x, 8)
    if tl.rank == 0:
        total = row(tl, out)
        for other in range(1, tl.world_size):
            total = total + row(tl, out + ROW * other)
        tl.store(out + 7 * ROW, total)


def reduce_scratch_reused(x: Any, out: Any, right: bool, tl: Any) -> None:
    """Two sums with one scratch row a rank: the second must not begin before the first was read."""
    for turn in range(2):
        if turn and right:
            tl.send("W", note(tl))
            tl.recv("E", WORD, "i32")
        tl.wait(tl.store(out + ROW * tl.rank, row(tl, x + ROW * tl.rank) + turn))
        tl.send("E", note(tl))
        tl.recv("W", WORD, "i32")
        other = (tl.rank - 1) % tl.world_size
        if not right:
            busy(tl, x, 2 * tl.rank)
        tl.wait(tl.store(out + ROW * (4 + 2 * turn + tl.rank % 2), row(tl, out + ROW * other)))


def sends_need_two_slots(x: Any, out: Any, right: bool, tl: Any) -> None:
    """Both ranks send twice before they receive; with one slot they wait for each other."""
    mine = row(tl, x + ROW * tl.rank)
    if right:
        for turn in range(2):
            tl.send("E", mine + turn)
            tl.store(out + ROW * (2 * tl.rank + turn), tl.recv("W", (N,), "i32"))
        return
    tl.send("E", mine, wait=True)
    tl.send("E", mine + 1, wait=True)
    for turn in range(2):
        tl.store(out + ROW * (2 * tl.rank + turn), tl.recv("W", (N,), "i32"))


KERNELS: dict[str, Callable[[bool], Bench]] = {
    one.__name__: lambda right, one=one, ranks=ranks: made(one.__name__, one, right, ranks)  # type: ignore[misc]
    for one, ranks in (
        (message_before_store_ends, 2),
        (two_writers, 2),
        (read_without_message, 2),
        (overwritten_before_read, 2),
        (flag_before_data, 2),
        (counter, 2),
        (neighbour_row, 4),
        (buffer_reused, 2),
        (message_over_a_third, 4),
    )
}
COLLECTIVES: dict[str, Callable[[bool], Bench]] = {
    one.__name__: lambda right, one=one, ranks=ranks: made(one.__name__, one, right, ranks)  # type: ignore[misc]
    for one, ranks in (
        (gather_without_last_message, 4),
        (barrier_short_of_a_round, 4),
        (broadcast_read_early, 4),
        (reduce_reads_one_too_early, 4),
        (reduce_scratch_reused, 2),
    )
}
COLLECTIVES["sends_need_two_slots"] = lambda right: made("sends", sends_need_two_slots, right, slots=None)
