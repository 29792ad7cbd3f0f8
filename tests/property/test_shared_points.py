"""Points of a sweep share plans, programs and runs: after any change of a machine, a point gets what it gets alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.keys import machine_kinds, sections_of
from kernbench.config.machine import plain_value
from tests.shared_results import forget_results, small_target
from tests.speed.kept import without_kept_results

ROOM = {"spm.bank_size_bytes": 1 << 18}
ARRAY = {
    "te.timing": "systolic", "te.rows": 32, "te.cols": 32, "te.dataflow": "ws", "te.fill": "overlapped",
    "te.drain": "overlapped", "te.operand_bytes_per_cycle": 256,
}  # fmt: skip
TILES = {"tile_m": 64, "tile_n": 64, "tile_k": 256, "chunk_elements": 4096}
#: By name, a preset and what differs from it.
MACHINES: dict[str, tuple[str, dict[str, Any]]] = {
    "mobile": ("npu_mobile", {}),
    "server": ("npu_server", ROOM),
    "cache": ("npu_server", ROOM | {"llc": {"capacity_bytes": 1 << 20, "bw_bytes_per_cycle": 512, "at": [0, 0]}}),
    "array": ("npu_server", ROOM | ARRAY),
    "routers": ("npu_server", ROOM | {"noc.model": "flit", "noc.flit": {"depth": 4, "channels": 4}}),
    "jobs": ("npu_mobile", {"control.micro_scheduler": TILES}),
    "controllers": ("npu_mobile", {"allocation": "row_buffer_v2", "dram.device": "lpddr5_6400"}),
    "in turn": ("npu_mobile", {"spm.arbiter": "round_robin", "allocation": "fifo_v1", "ve.reduction_trees": 3}),
}
CONTEXTS = (9, 40)


def _values(plain: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The keys of a machine with their values, without those that identify it and those in lists."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from _values(value, (*path, str(name)))
    elif not isinstance(plain, list) and path[0] != "schema":
        yield ".".join(path), plain


KEYS = {name: list(_values(plain_value(load_config(*machine)))) for name, machine in MACHINES.items()}
CHOICES = {key.path: key.choices for part in sections_of(*machine_kinds("npu").values()) for key in part.keys}


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, Any]:
    """A machine, one of its keys, and another value of this key, which need not be valid."""
    name = draw(st.sampled_from(sorted(MACHINES)))
    path, value = draw(st.sampled_from(KEYS[name]))
    if type(value) is bool:
        return name, path, not value
    if isinstance(value, str):
        others = [one for one in CHOICES.get(path, ()) if one != value]
        return name, path, draw(st.sampled_from(others)) if others else value
    others = [value + 1, value - 1, 2 * value, value / 2 if isinstance(value, float) else value // 2]
    return name, path, draw(st.sampled_from([one for one in others if one != value]))


def _rows(machine: str, change: dict[str, Any]) -> list[dict[str, Any]] | str:
    """The rows of a machine for all contexts, or the error that it gets."""
    target = small_target()
    preset, given = MACHINES[machine]
    try:
        config = load_config(preset, given | change)
        return [target.simulate(config, {"prompt": context}) for context in CONTEXTS]
    except InputError as error:
        return str(error)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=12)
@given(changes())
def test_a_point_with_another_value_of_a_key_gets_what_it_gets_alone(drawn: tuple[str, str, Any]) -> None:
    machine, path, value = drawn
    with without_kept_results():
        forget_results()
        before = _rows(machine, {})
        shared = _rows(machine, {path: value})
        again = _rows(machine, {})
        forget_results()
        alone = _rows(machine, {path: value})
    assert shared == alone
    assert again == before


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget_results()
