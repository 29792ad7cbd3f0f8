"""The ops of a replay, sorted into stages while the replay runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kernbench.common.errors import InputError
from kernbench.sim_engine.ops.ranges import ReplayOp
from kernbench.sim_engine.replay.stages import Stages
from kernbench.sim_engine.replay.tasks import in_sequence

FIRST, CHUNK = 512, 1024  # ops that are sorted before the first stage begins, and at a time while stages run
AHEAD = 2048  # ops that have been sorted and wait; if there are more, no more are sorted
MOST = 1 << 16  # ops of one object with stages: it keeps where each of them is


class Schedule:
    """The next ops of a replay: those that are sorted into stages, and then those that run in sequence."""

    def __init__(self, ops: Iterator[ReplayOp]) -> None:
        self.stages = Stages()
        self._ops = ops
        self._sequence: list[ReplayOp] = []
        self._error: InputError | None = None

    def begin(self) -> bool:
        """Sort the first ops after all earlier ones have run; False if there are none."""
        self.stages = Stages()
        self._sort(FIRST)
        return bool(self.stages.count or self._sequence or self._error)

    def look_ahead(self) -> None:
        """Sort more ops while stages run. An error in these ops is reported after all ops before them have run."""
        if self.stages.count < AHEAD and self.stages.total < MOST and not self._sequence and self._error is None:
            self._sort(CHUNK)

    def sequence(self) -> list[ReplayOp]:
        """Ops that run in sequence after those of all stages. Raises the InputError of ops that cannot be sorted."""
        if self._error is not None:
            raise self._error
        ops, self._sequence = self._sequence, []
        return ops

    def _sort(self, count: int) -> None:
        try:
            ops = list(islice(self._ops, count))
            if in_sequence(ops):
                self._sequence = ops
            else:
                self.stages.add(ops)
        except InputError as error:
            self._error = error
