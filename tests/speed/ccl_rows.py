"""Collectives: CPU time of whole runs, and of a send as ranks grow. `python -m tests.speed.ccl_rows`."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from functools import cache

from kernbench.ccl.call import Queues
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config
from tests.speed.goals import Goal, goal_lines
from tests.speed.sample import Sample

#: Machine, ranks, algorithm, bytes a rank, verified, and the goal [s].
RUNS = (
    ("pod_8sip", 256, "ring", 1 << 20, True, 10.0),
    ("pod_8sip", 1024, "hierarchical", 1 << 20, False, 15.0),
)
QUICK = (
    ("sip_4x4", 32, "ring", 1 << 17, True, 30.0),
    ("sip_4x4", 128, "hierarchical", 1 << 17, False, 60.0),
)
FLAT = (16, 64, 256, 1024)  #: ranks, for the cost of a send
SENDS = 16384  #: in all, whatever the ranks
MESSAGE = 2048  #: [B]
FLAT_GOAL = 1.5  #: the cost of a send at the most ranks, over that at the fewest


@dataclass(frozen=True)
class CclRow:
    """One run."""

    algorithm: str
    ranks: int
    nbytes: int
    cpu_s: float
    goal_s: float
    wrong: int | None  #: elements; None: not verified


@dataclass(frozen=True)
class SendRow:
    """What one more send costs: pairs of neighbours in a ring that send to each other."""

    ranks: int
    us_a_send: Sample


def ccl_rows(quick: bool = False) -> list[CclRow]:
    """CPU seconds of whole all-reduces with their goals."""
    registry, found = read_registry(), []
    for machine, ranks, algorithm, size, check, goal in QUICK if quick else RUNS:
        config, entry = load_config(machine), registry.find("all_reduce", algorithm)
        request = CclRequest(
            config, group_of(config, shape_for(config, ranks)), entry, "f16", queues_of(registry, entry), check
        )
        seconds, wrong = _seconds(request, size // 2)
        found.append(CclRow(algorithm, ranks, size, seconds, goal, wrong))
    return found


@cache
def send_rows(quick: bool = False) -> list[SendRow]:
    """Microseconds of CPU time a send, of rings of more and more ranks on one machine: a long run less a short one. They are
    measured once in a process.
    """
    found = []
    for ranks in FLAT[:2] if quick else FLAT:
        request, each = _pairs(ranks), SENDS // ranks
        _seconds(request, MESSAGE // 2)  # what is made once in a process: routes, caches
        spent = [[_seconds(request, count * MESSAGE // 2)[0] for count in (1, each + 1)] for _ in range(3)]
        found.append(SendRow(ranks, Sample((long - short) / (each * ranks) * 1e6 for short, long in spent)))
    return found


def sends(ranks: int, each: int, system: str) -> None:
    """So many messages of each rank, one after the other."""
    _seconds(_pairs(ranks, system), each * MESSAGE // 2)


def _pairs(ranks: int, system: str = "pod_8sip") -> CclRequest:
    """Neighbours in a ring that send to each other, on one system whatever the ranks."""
    registry, config = read_registry(), load_config(system)
    queues = Queues(registry.slots, MESSAGE, registry.tier)
    return CclRequest(
        config, group_of(config, shape_for(config, ranks)), registry.find("send_recv"), "f16", queues, check=False
    )


def ccl_table(rows: list[CclRow]) -> str:
    """As lines."""
    lines = ["  algorithm      ranks        bytes      time   wrong elements"]
    for one in rows:
        wrong = "not verified" if one.wrong is None else f"{one.wrong:,}"
        lines.append(f"  {one.algorithm:13} {one.ranks:6,} {one.nbytes:12,} {one.cpu_s:7.2f} s   {wrong}")
    return "\n".join(lines)


def ccl_goals(rows: list[CclRow]) -> list[Goal]:
    """CPU time of each."""
    return [
        Goal(f"all-reduce of {one.nbytes:,} B, {one.algorithm}, {one.ranks:,} ranks", one.cpu_s, one.goal_s, "s")
        for one in rows
    ]


def send_table(rows: list[SendRow]) -> str:
    """As lines."""
    lines = [f"  {one.ranks:6,} ranks {one.us_a_send:8.1f} us {one.us_a_send.about}" for one in rows]
    return "\n".join([f"  a send of {MESSAGE:,} bytes", *lines])


def send_goals(rows: list[SendRow]) -> list[Goal]:
    """A send takes as long on many ranks as on few."""
    first, last = rows[0], rows[-1]
    return [
        Goal(
            f"a send between {last.ranks:,} ranks over one between {first.ranks}",
            last.us_a_send / first.us_a_send,
            FLAT_GOAL,
            "times",
        )
    ]


def _seconds(request: CclRequest, count: int) -> tuple[float, int | None]:
    gc.collect()  # of the runs before: else their garbage is looked for in this one
    before = time.process_time()
    found, _ = row(request, count)
    assert found is not None
    return time.process_time() - before, found.wrong


if __name__ == "__main__":
    WHOLE, SENT = ccl_rows(), send_rows()
    print(f"{ccl_table(WHOLE)}\n{send_table(SENT)}\n{goal_lines([*ccl_goals(WHOLE), *send_goals(SENT)])}")
