"""Collectives: CPU time of whole runs, and of a send as ranks grow. `python -m tests.speed.ccl_rows`."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

from kernbench.ccl.call import Queues
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config
from tests.speed.sample import Sample

#: Machine, ranks, algorithm, bytes a rank, verified, and the mark [s].
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
FLAT_MARK = 1.5  #: the cost of a send at the most ranks, over that at the fewest


@dataclass(frozen=True)
class CclRow:
    """One run."""

    algorithm: str
    ranks: int
    nbytes: int
    cpu_s: float
    mark_s: float
    wrong: int | None  #: elements; None: not verified


@dataclass(frozen=True)
class SendRow:
    """What one more send costs: pairs of neighbours in a ring that send to each other."""

    ranks: int
    us_a_send: Sample


def ccl_rows(quick: bool = False) -> list[CclRow]:
    """CPU seconds of whole all-reduces with their marks."""
    registry, found = read_registry(), []
    for machine, ranks, algorithm, size, check, mark in QUICK if quick else RUNS:
        config, entry = load_config(machine), registry.find("all_reduce", algorithm)
        request = CclRequest(
            config, group_of(config, shape_for(config, ranks)), entry, "f16", queues_of(registry, entry), check
        )
        seconds, wrong = _seconds(request, size // 2)
        found.append(CclRow(algorithm, ranks, size, seconds, mark, wrong))
    return found


def send_rows(quick: bool = False) -> list[SendRow]:
    """Microseconds of CPU time a send, of rings of more and more ranks on one machine: a long run less a short one."""
    found = []
    for ranks in FLAT[:2] if quick else FLAT:
        request, each = _pairs(ranks), SENDS // ranks
        _seconds(request, MESSAGE // 2)  # what is made once in a process: routes, caches
        spent = [[_seconds(request, count * MESSAGE // 2)[0] for count in (1, each + 1)] for _ in range(3)]
        found.append(SendRow(ranks, Sample((long - short) / (each * ranks) * 1e6 for short, long in spent)))
    return found


def sends(ranks: int, each: int) -> None:
    """So many messages of each rank, one after the other."""
    _seconds(_pairs(ranks), each * MESSAGE // 2)


def _pairs(ranks: int) -> CclRequest:
    """Neighbours in a ring that send to each other, on one machine whatever the ranks."""
    registry, config = read_registry(), load_config("pod_8sip")
    queues = Queues(registry.slots, MESSAGE, registry.tier)
    return CclRequest(
        config, group_of(config, shape_for(config, ranks)), registry.find("send_recv"), "f16", queues, check=False
    )


def ccl_table(rows: list[CclRow], sends: list[SendRow]) -> str:
    """Both as lines."""
    lines = ["collectives, CPU time of an all-reduce of f16", "algorithm      ranks        bytes      time   mark        wrong"]
    for one in rows:
        wrong = "not verified" if one.wrong is None else f"{one.wrong:,}"
        mark = f"{one.mark_s:.0f} s {'holds' if one.cpu_s <= one.mark_s else 'DOES NOT HOLD'}"
        lines.append(f"{one.algorithm:13} {one.ranks:6,} {one.nbytes:12,} {one.cpu_s:7.2f} s   {mark:20} {wrong}")
    costs = ", ".join(f"{one.us_a_send:.1f} {one.us_a_send.about} at {one.ranks:,}" for one in sends)
    ratio = sends[-1].us_a_send / sends[0].us_a_send
    held = "holds" if ratio <= FLAT_MARK else "DOES NOT HOLD"
    lines.append(f"us a send of {MESSAGE:,} bytes, by ranks: {costs}")
    lines.append(f"  {sends[-1].ranks:,} ranks over {sends[0].ranks}: {ratio:.2f}, mark {FLAT_MARK}: {held}")
    return "\n".join(lines)


def _seconds(request: CclRequest, count: int) -> tuple[float, int | None]:
    gc.collect()  # of the runs before: else their garbage is looked for in this one
    before = time.process_time()
    found, _ = row(request, count)
    assert found is not None
    return time.process_time() - before, found.wrong


if __name__ == "__main__":
    print(ccl_table(ccl_rows(), send_rows()))
