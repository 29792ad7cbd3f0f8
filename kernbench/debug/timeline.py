"""A run at any cycle: forward by running, backward from the nearest snapshot or, with kernels, by running again from cycle 0.

A snapshot is the model state of the core. A kernel is Python code in the middle of a function, which no snapshot contains. Such
a run is repeated from its inputs, which gives the same cycles.
"""

from __future__ import annotations

from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.debug.subject import Live, Subject, quiet

EVERY = 1024  # [cycle] first distance between snapshots
MAX_BYTES = 64 << 20  # [B] limit of all snapshots of a timeline
MAX_SNAPSHOTS = 512


class Timeline:
    """One run that can move to any cycle. `live` is the run at `cycle`; `before` has the counters of one cycle earlier."""

    def __init__(self, subject: Subject, *, every: int = EVERY, most_bytes: int = MAX_BYTES) -> None:
        """`every`: [cycle] the first distance between snapshots. `most_bytes`: if all snapshots together are larger, every
        second one is dropped, and the distance between them doubles.
        """
        self.subject = subject
        self.every, self._most = every, most_bytes
        self.snapshots: dict[int, bytes] = {}  #: by cycle; none for a run that is repeated
        self.live: Live = self._begin()
        self.replays = self.live.machine.plugged  #: whether moving back repeats the run
        self.before: dict[str, Any] | None = None  #: counters of the core one cycle earlier; None at cycle 0
        self._asked = 0  # the cycle of the last `seek`
        self.names: dict[str, tuple[str, str, int]] = {}  #: resolved names: kind, full name, number of name components
        self.hashes: dict[int, str] = {}  #: for a repeated run: digests of states, by cycle
        if not self.replays:
            self.snapshots[0] = self.live.machine.snapshot()

    def _begin(self) -> Live:
        first = not hasattr(self, "live")
        with quiet(self.subject.printed if first else None):
            return self.subject.begin()

    @property
    def cycle(self) -> int:
        """[cycle] The number of cycles run."""
        return self.live.machine.cycle

    @property
    def snapshot_bytes(self) -> int:
        """[B] Of all snapshots."""
        return sum(map(len, self.snapshots.values()))

    def seek(self, cycle: int) -> int:
        """Move to the state after `cycle` cycles, or to the end of the run if it is shorter; return the new cycle.

        The end of a run is visible only in the cycle after its last one: the state after exactly as many cycles as the run has
        may be `running`, as in `Machine.run(cycles=...)`.
        """
        cycle = max(0, cycle)
        if cycle == self._asked and (self.before is not None or cycle == 0):
            return self.cycle
        self._asked = cycle
        target = max(0, cycle - 1)  # the counters there describe the last cycle
        if target < self.cycle or self.live.machine.status != "running":
            self._back(target)
        self._forward(target)
        self.before = None
        if cycle > 0:
            self.before = self.live.machine._core.counters()
            if self.live.machine.status != "running" and self.cycle <= target:
                return self._last_cycle()
            self._forward(cycle)
        return self.cycle

    def step(self) -> bool:
        """Run one cycle, like `seek` but without updating `before`; False if the run is over."""
        at = self.cycle
        self._asked, self.before = at + 1, None
        self._forward(at + 1)
        return self.cycle > at

    def _last_cycle(self) -> int:
        """The run ended before the wanted cycle: move to its last cycle."""
        end = self.cycle
        if end == 0:
            self.before = None
            return end
        self._back(end - 1)
        self._forward(end - 1)
        self.before = self.live.machine._core.counters()
        self._forward(end + 1)
        return self.cycle

    def _back(self, cycle: int) -> None:
        if self.replays:
            self.live = self._begin()
            return
        nearest = max(at for at in self.snapshots if at <= cycle)
        self.live.machine.restore(self.snapshots[nearest])

    def _forward(self, cycle: int) -> None:
        machine = self.live.machine
        with quiet(self.subject.printed if not self.hashes and self.replays else None):
            while machine.cycle < cycle and machine.status == "running":
                if self.replays:
                    machine.run(cycles=cycle - machine.cycle)
                    continue
                stop = min(cycle, machine.cycle - machine.cycle % self.every + self.every)
                machine.run(cycles=stop - machine.cycle)
                if machine.cycle % self.every == 0 and machine.cycle not in self.snapshots:
                    self._keep(machine.cycle, machine.snapshot())

    def _keep(self, cycle: int, state: bytes) -> None:
        self.snapshots[cycle] = state
        while len(self.snapshots) > 2 and (self.snapshot_bytes > self._most or len(self.snapshots) > MAX_SNAPSHOTS):
            self.every *= 2
            self.snapshots = {at: kept for at, kept in self.snapshots.items() if at % self.every == 0}

    def digest(self) -> str:
        """SHA-256, in hex, of the state: equal for two runs at the same cycle, whatever movements led there."""
        machine, engine = self.live.machine, self.live.engine
        if engine is not None:
            from kernbench.sim_engine.kernel_checkpoint import state_hash

            return state_hash(engine)
        return str(machine._core.digest())

    def check_replay(self) -> None:
        """InputError if this run is at a cycle where it was before, but in another state: its code is not deterministic."""
        if not self.replays:
            return
        found = self.digest()
        if self.hashes.setdefault(self.cycle, found) != found:
            rule = f"the run is in another state in cycle {self.cycle} than before: its code depends on more than its inputs"
            raise InputError(Problem(self.subject.name, rule, remedy="remove clocks and unseeded random numbers from it"))
