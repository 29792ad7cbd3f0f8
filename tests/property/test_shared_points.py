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

MACHINES = {"npu_mobile": {}, "npu_server": {"spm.bank_size_bytes": 1 << 18}}
CONTEXTS = (9, 40)


def _values(plain: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The keys of a machine with their values, without those that identify it and those in lists."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from _values(value, (*path, str(name)))
    elif not isinstance(plain, list) and path[0] != "schema":
        yield ".".join(path), plain


KEYS = {name: list(_values(plain_value(load_config(name, change)))) for name, change in MACHINES.items()}
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
    try:
        config = load_config(machine, MACHINES[machine] | change)
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
