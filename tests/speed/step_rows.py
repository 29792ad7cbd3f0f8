"""Stepping and skipping beside SimPy on the three loads. `python -m tests.speed.step_rows`.

An engine-tick is a cycle of an active transfer, of a TE or VE with a job, or of a DRAM channel or mesh link in use. SimPy runs
fewer cycles of the same machine, in the same metric: no queue runs dry, so its time per engine-tick does not depend on the
length. In every row all three give the same start and end of every job.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.speed.goals import Goal, goal_lines
from tests.speed.measure import Row, Size, Timing, measure
from tests.speed.sample import Sample
from tests.speed.workloads import LOADS

FULL = (Size(1, 400_000, 10_000, 5), Size(8, 80_000, 3_000, 5), Size(64, 12_000, 800, 3))
QUICK = (Size(1, 100_000, 2_500, 3), Size(8, 20_000, 500, 3), Size(64, 3_000, 200, 3))
#: Of stepping [ns per engine-tick] on one PE and on more, of SimPy over stepping on more PEs, and of stepping over skipping.
GOALS = {"dram": (6.0, 3.0, 800.0, 0.97), "compute": (6.0, 3.0, 800.0, 3.0), "conflict": (6.0, 6.0, 500.0, 0.97)}

HEAD = """\
  load     PEs  cycles   ticks     step ns      skip ns      SimPy ns SimPy/  step/
                        /cycle                                          step   skip"""


def step_rows(quick: bool) -> Iterator[Row]:
    """The three loads on 1, 8 and 64 PEs, one by one."""
    for load in LOADS.values():
        for size in QUICK if quick else FULL:
            yield measure(load, size)


def step_line(row: Row) -> str:
    """A row for a person, below `HEAD`."""
    ticks = row.stepping.ticks / row.stepping.cycles
    ours = " ".join(f"{timing.median:5.1f} {_spread(timing)}" for timing in (row.stepping, row.skipping))
    theirs = f"{row.simpy.median:5.0f} {_spread(row.simpy)}"
    machine = f"  {row.load:8} {row.pes:3} {row.stepping.cycles:7} {ticks:7.1f}"
    return f"{machine} {ours} {theirs} {row.over_simpy:5.0f}x {row.over_stepping:5.2f}x"


def _spread(timing: Timing) -> str:
    return f"+-{min(timing.spread, 0.99):3.0%}"  # two digits keep the columns; --json has the samples


def step_goals(rows: list[Row]) -> list[Goal]:
    """Of stepping, beside SimPy and beside skipping."""
    goals = []
    for row in rows:
        one, more, simpy, skipping = GOALS[row.load]
        name = f"{row.load}, {row.pes} PEs"
        goals.append(
            Goal(f"{name}: stepping, an engine-tick", Sample(row.stepping.samples), one if row.pes == 1 else more, "ns")
        )
        if row.pes > 1:
            goals.append(Goal(f"{name}: SimPy over stepping", row.over_simpy, simpy, "x", more=True))
            goals.append(Goal(f"{name}: stepping over skipping", row.over_stepping, skipping, "x", more=True))
    return goals


if __name__ == "__main__":
    ROWS = []
    print(HEAD)
    for ROW in step_rows("--quick" in sys.argv):
        ROWS.append(ROW)
        print(step_line(ROW), flush=True)
    print(goal_lines(step_goals(ROWS)))
