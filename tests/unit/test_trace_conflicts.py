"""The bank conflict rate: conflicts and accesses by bank, direction and cycle, counted by hand."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest

from kernbench.trace import metrics, open_trace
from kernbench.trace.events import Record
from kernbench.trace.metric.figures import Metrics
from tests.trace_samples import UNITS, meta, record, write_trace

SPM = {"unit": "spm", "component": "SRAM", "index": 0, "parent": "", "num_banks": 2, "bank_width_bytes": 16}
SPM |= {"bank_size_bytes": 64, "map": "interleaved", "ports": 1}
JOBS: dict[str, dict[str, Any]] = {
    "A": {"job_id": 0, "cmd_id": 0, "unit": "te0"},
    "B": {"job_id": 1, "cmd_id": 1, "unit": "dma0"},
    "C": {"job_id": 2, "cmd_id": 2, "unit": "ve0"},
}


def access(t_cycle: int, job: str, addr: int, size: int, access_type: str, cycles: int = 1) -> Record:
    ids = {**JOBS[job], "unit": "spm"}
    named = {"addr": addr, "size_bytes": size, "bank_id": addr // 16 % 2, "access_type": access_type, "cycles": cycles}
    return record("SRAM_ACCESS", t_cycle, **ids, **named, by="TE", conflict=cycles > 1)


def conflict(t_cycle: int, bank: int, access_type: str) -> Record:
    counts = {"num_requests": 2, "allowed": 1, "stalled_clients": ["DMA"]}
    return record("SRAM_CONFLICT", t_cycle, unit="spm", bank_id=bank, access_type=access_type, **counts)


def held(t_cycle: int, job: str) -> Record:
    return record("STALL_EVENT", t_cycle, **JOBS[job], reason="bank_conflict")


def served(t_cycle: int, job: str, cycles: int) -> Record:
    return record("RESUME_EVENT", t_cycle, **JOBS[job], reason="bank_conflict", duration_cycles=cycles)


#: Cycle 0: A reads banks 0 and 1; B and C write bank 1 and are denied. B is served in cycle 3, in which A reads bank 0;
#: C in cycle 5. First askings are of 4 banks, directions and cycles: (0, READ, 0), (1, READ, 0), (1, WRITE, 0), (0, READ, 3).
BY_HAND = [
    conflict(0, 1, "WRITE"),
    held(0, "B"),
    held(0, "C"),
    access(0, "A", 0, 32, "READ"),
    access(3, "B", 16, 16, "WRITE", 4),
    served(3, "B", 3),
    access(3, "A", 32, 16, "READ"),
    access(5, "C", 48, 16, "WRITE", 6),
    served(5, "C", 5),
]


def of(folder: Path, records: list[Record], **head: Any) -> Metrics:
    units = [SPM if unit["unit"] == "spm" else unit for unit in UNITS]
    end = record("TRACE_END", 6, status="done", cycles=6, events=len(records), counters={})
    return metrics(
        open_trace(write_trace(folder / "t.jsonl", [meta(**{"level": "access", "units": units, **head}), *records, end]))
    )


def test_a_rate_by_hand(tmp_path: Path) -> None:
    found = of(tmp_path, BY_HAND)
    assert (found.banks.conflicts, found.banks.accesses, found.banks.conflict_rate) == (1, 4, F(1, 4))
    assert found.run.missing == ()


def test_banks_that_follow_each_other_in_blocks(tmp_path: Path) -> None:
    """With banks of 32 bytes A's first read is of bank 0 alone: (0, READ, 0), (1, READ, 3), and writes of both in cycle 0."""
    units = [{**SPM, "bank_size_bytes": 32, "map": "blocked"} if unit["unit"] == "spm" else unit for unit in UNITS]
    assert of(tmp_path, BY_HAND, units=units).banks.accesses == 4


def test_a_request_that_is_never_served_is_a_conflict_all_the_same(tmp_path: Path) -> None:
    found = of(tmp_path, [conflict(0, 1, "WRITE"), held(0, "B")])
    assert (found.banks.conflicts, found.banks.accesses, found.banks.conflict_rate) == (1, 1, F(1))


def test_a_file_of_some_cycles_counts_first_askings_in_it(tmp_path: Path) -> None:
    found = of(tmp_path, [one for one in BY_HAND if one.t_cycle >= 2], filter={"cycles": [2, 6]})
    assert (found.banks.conflicts, found.banks.accesses, found.banks.conflict_rate) == (0, 1, F(0))


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ({"level": "full"}, "it needs level access (the share of denied requests is here)"),
        ({"filter": {"only": ["spm"]}}, "it needs all units"),
        ({"units": UNITS}, "TRACE_META.units does not say where the banks of each scratchpad are"),
    ],
)
def test_what_gives_no_rate_says_why(tmp_path: Path, head: dict[str, Any], why: str) -> None:
    found = of(tmp_path, BY_HAND, **head)
    assert (found.banks.accesses, found.banks.conflict_rate) == (None, None)
    assert f"bank conflict rate: {why}" in found.run.missing
