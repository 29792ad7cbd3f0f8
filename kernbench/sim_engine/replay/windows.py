"""Windows of a replay: consecutive ops that are in memory at the same time, sorted into levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from kernbench.common.errors import InputError
from kernbench.sim_engine.ops.ranges import ReplayOp
from kernbench.sim_engine.replay.levels import levels
from kernbench.sim_engine.replay.tasks import in_sequence

Window: TypeAlias = tuple[list[ReplayOp], list[list[ReplayOp]] | None]  #: ops; levels, unless they run in sequence


class Windows:
    """The windows of a replay in order. The next one can be sorted in advance, while other threads compute."""

    def __init__(self, ops: Iterable[ReplayOp], size: int, *, sequences: bool) -> None:
        """`size`: number of ops of a window. `sequences`: whether the ops of a window run in sequence if its levels would
        hold only one or two ops each.
        """
        self._ops, self._size, self._sequences = iter(ops), size, sequences
        self._ahead: Window | InputError | None = None

    def look_ahead(self) -> None:
        """Sort the next window, unless that is done. An error in it is raised when the window is taken."""
        if self._ahead is None:
            try:
                self._ahead = self._sorted()
            except InputError as error:
                self._ahead = error

    def _sorted(self) -> Window:
        ops = list(islice(self._ops, self._size))
        return ops, None if self._sequences and in_sequence(ops) else levels(ops)

    def __iter__(self) -> Iterator[Window]:
        while True:
            self.look_ahead()
            window, self._ahead = self._ahead, None
            if isinstance(window, InputError):
                raise window
            if window is None or not window[0]:
                return
            yield window
