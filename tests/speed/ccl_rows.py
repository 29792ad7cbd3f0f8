"""Collectives: CPU time of whole runs. `python -m tests.speed.ccl_rows`."""

from __future__ import annotations

import json
import time
from typing import Any

from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import Asked, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config

#: Name: machine, ranks, algorithm, bytes a rank, verified, and the mark [s].
RUNS = {
    "ring_256_verified": ("pod_8sip", 256, "ring", 1 << 20, True, 30.0),
    "hierarchical_1024": ("pod_8sip", 1024, "hierarchical", 1 << 20, False, 60.0),
}
QUICK = {
    "ring_32_verified": ("sip_4x4", 32, "ring", 1 << 17, True, 30.0),
    "hierarchical_128": ("sip_4x4", 128, "hierarchical", 1 << 17, False, 60.0),
}
FLAT = (16, 64, 128)  #: ranks, for the cost of a message


def ccl_rows(quick: bool = False) -> dict[str, Any]:
    """CPU seconds of each run with its mark, and microseconds a message of rings of more and more ranks."""
    rows: dict[str, Any] = {}
    for name, (machine, ranks, algorithm, size, check, mark) in (QUICK if quick else RUNS).items():
        seconds, wrong = _seconds(machine, ranks, algorithm, size, check)
        rows[name] = {"cpu_s": seconds, "mark_s": mark, "wrong": wrong}
    rows["us_a_message"] = {
        ranks: _seconds("sip_4x4", ranks, "ring", ranks * 512, False)[0] / (2 * ranks * (ranks - 1)) * 1e6
        for ranks in (FLAT[:2] if quick else FLAT)
    }
    return rows


def _seconds(machine: str, ranks: int, algorithm: str, size: int, check: bool) -> tuple[float, int | None]:
    registry, config = read_registry(), load_config(machine)
    entry = registry.find("all_reduce", algorithm)
    asked = Asked(config, group_of(config, shape_for(config, ranks)), entry, "f16", queues_of(registry, entry), check)
    before = time.process_time()
    found, _ = row(asked, size // 2)
    assert found is not None
    return time.process_time() - before, found.wrong


if __name__ == "__main__":
    print(json.dumps(ccl_rows(), indent=1))
