"""Runs the slices of a collective in turn, so that one slice computes while the bytes of another slice travel.

A slice is a generator with alternating turns. In one turn it sends and requests a message; in the next turn it waits for the
message and uses it. Every rank runs the same slices in the same order, and a rank receives in the step in which the rank
before it sends. Messages over a queue are therefore sent and received in the same order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any

from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.tl.waits import TlWaits

#: Yields a tile to wait for it, and at the end of each turn whether its second half has begun.
Slice = Generator[Any, None, None]


class _Running:
    """A slice that has begun. To iterate over it runs one turn, and yields the waits of the turn.

    If the program runs nothing else, the slice waits in place instead, because a yield passes through all generators in
    between.
    """

    def __init__(self, turns: Slice) -> None:
        self.turns = turns
        self.late = False
        self.over = False
        self.wanted: Any = None  # the tile of the last wait, until the slice says something else: its slot is in use

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        for said in self.turns:
            self.wanted = None
            if said is True or said is False:
                self.late = said
                raise StopIteration
            if not self._waited(said):
                self.wanted = said
                return said
        self.wanted = None
        self.over = self.late = True
        raise StopIteration

    def _waited(self, said: Any) -> bool:
        """Wait for a tile, if its program runs one slice. False if `run` has to choose between the waits of several slices.

        The tile is held until the next wait, as `run` holds it, so that slots are freed in the same order.
        """
        if type(said) is not KernelTensor:
            return False
        tile: KernelTensor = said
        tl: TlWaits = tile._tl
        runner: KernelRunner = tl._runner
        if not runner.alone or runner.strands is not None:
            return False
        runner.waited = tile
        tl.wait_tile(tile)
        return True


def in_turn(
    slices: Iterable[Slice], most: int, batch: int = 0, *, each: int = 0, whole: bool = False, plain: bool = False
) -> Slice:
    """Run slices concurrently, at most `most` at a time. The result is itself a slice, whose steps are rounds.

    In a round, each slice uses its message, and sends after the next slice has used its own message. The message of a slice
    therefore travels while other slices compute.

    With `batch`, that many slices begin together, and the next slices begin when all running slices are in their second half.
    Without it, a slice begins as soon as another one has ended. With `each`, at most that many slices begin in a round, so that
    slices that follow each other are in different steps. With `whole`, all slices have sent at the end of a round; this
    is necessary where several such results run in turn and share queues. `plain` runs such results: one turn each, in rounds.
    """
    left = iter(slices)
    running: list[_Running] = []
    before: _Running | None = None
    while True:
        if not batch or _all_late(running):
            begin = [_Running(new) for new in islice(left, min(batch or each or most, most - len(running)))]
            if begin and before is not None:  # messages are used in the order of their requests
                yield from before
                before = None
            for one in begin:
                yield from one
                running.append(one)
            if begin and whole:
                yield False
        if not running:
            return
        if before is running[0]:
            yield from before
            before = None
        for one in running:
            yield from one
            if before is not None and before is not one:
                yield from before
            before = None if plain else one
        if before is not None and (whole or len(running) == 1):
            yield from before
            before = None
        running = [one for one in running if not one.over]
        yield _all_late(running)


def _all_late(running: list[_Running]) -> bool:
    for some in running:
        one: _Running = some
        if not one.late:
            return False
    return True


def early(slices: Slice) -> Slice:
    """Return a slice that is in its first half."""
    for said in slices:
        yield False if isinstance(said, bool) else said


def run(tl: Any, *slices: Slice) -> None:
    """Run slices to their ends, each as soon as its wait is over. No two slices may use the same queue."""
    runner = getattr(tl, "_runner", None)
    if runner is None:
        run_with_choice(tl, *slices)
        return
    before = runner.alone, runner.waited
    runner.alone, runner.waited = len(slices) == 1, None
    try:
        run_with_choice(tl, *slices)
    finally:
        runner.alone, runner.waited = before


def run_with_choice(tl: Any, *slices: Slice) -> None:
    """Do the same as `run`, and choose between the waits of the slices here."""
    runner = getattr(tl, "_runner", None)
    waiting: list[tuple[Slice, Any]] = [(one, None) for one in slices]
    while waiting:
        number = 0 if len(waiting) == 1 or waiting[0][1] is None else tl.wait_any(*(tile for _, tile in waiting))
        one, tile = waiting.pop(number)
        if tile is not None:
            tl.wait(tile)
        tile = None  # its slot is free as soon as it has been used
        wanted = _wanted(one)
        if runner is not None:
            runner.waited = None
        if wanted is not None:
            waiting.append((one, wanted))


def _wanted(turns: Slice) -> Any:
    """Return the next wait of a slice, or None after its end."""
    for said in turns:
        if said is not True and said is not False:
            return said
    return None
