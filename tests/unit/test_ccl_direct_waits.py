"""A collective whose program runs one slice waits in place, and does the same as if `pipeline.run` had waited."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench.ccl import halving_doubling, pipeline, ring_collectives, ring_schedule, schedule, streams
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import CclRequest, counts_of, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config

MACHINE, REGISTRY = load_config("sip_4x4"), read_registry()
USERS = (halving_doubling, ring_collectives, ring_schedule, schedule, streams)  #: modules that call `pipeline.run`


def ran(collective: str, algorithm: str, ranks: int, nbytes: int) -> tuple[int, int | None, list[Any]]:
    """The cycles, the wrong elements and the op log."""
    entry = REGISTRY.find(collective, algorithm)
    request = CclRequest(MACHINE, group_of(MACHINE, shape_for(MACHINE, ranks)), entry, "f16", queues_of(REGISTRY, entry), True)
    found, outcome = row(request, counts_of(request, nbytes, nbytes, 2)[0])
    assert found is not None and outcome.engine.op_log is not None
    records = [
        (one.t_start, one.t_end, one.component_id, one.op_id, one.dependency_ids, one.params["line"], one.params["dst_addr"])
        for one in outcome.engine.op_log
    ]
    return found.cycles, found.wrong, records


@pytest.mark.parametrize(
    ("collective", "algorithm", "ranks", "nbytes"),
    [
        ("all_reduce", "ring", 5, 3000),
        ("all_reduce", "torus", 8, 70000),  # nested rings; slots freed in another order change addresses
        ("all_reduce", "hierarchical", 16, 20000),
        ("all_reduce", "halving_doubling", 8, 9000),
        ("all_gather", "bruck", 6, 3000),
        ("all_to_all", "ring", 5, 3000),  # several slices: `run` chooses between their waits
    ],
)
def test_waits_in_place_change_nothing(
    monkeypatch: pytest.MonkeyPatch, collective: str, algorithm: str, ranks: int, nbytes: int
) -> None:
    found = ran(collective, algorithm, ranks, nbytes)
    for module in USERS:
        monkeypatch.setattr(module, "run", pipeline.run_with_choice)
    assert ran(collective, algorithm, ranks, nbytes) == found
    assert found[1] == 0
