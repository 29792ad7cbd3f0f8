"""Sessions of the debugger in Python: what a step back runs, what waits, and what expressions are."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.debug import Session
from kernbench.debug.expression import Name, read
from kernbench.sim_engine.machine import Machine


@pytest.fixture(scope="module")
def session() -> Session:
    return Session("llama2-7b-decode")


def test_a_step_back_in_the_llama_layer_runs_at_most_the_cycles_since_a_snapshot(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.end()
    ran: list[int] = []
    plain = Machine.run

    def counted(machine: Machine, *, cycles: int) -> str:
        ran.append(cycles)
        return plain(machine, cycles=cycles)

    monkeypatch.setattr(Machine, "run", counted)
    for cycle in (129_000, 100_123, 64_512, 40_000, 1_025, 2):
        session.goto(cycle)
        ran.clear()
        session.back()
        assert session.cycle == cycle - 1
        assert 0 < sum(ran) <= session.timeline.every


def test_waits_name_the_entries_that_are_waited_for(session: Session) -> None:
    session.goto(60_000)
    found = {wait.who: wait for wait in session.waits()}
    assert found["825 TE_GEMM_TILE"].waits_for == ("824 DMA_LOAD_TILE",)
    assert found["825 TE_GEMM_TILE"].reason == "dependency"
    assert "824 DMA_LOAD_TILE" not in found  # it works


def value(text: str, **names: Any) -> Any:
    """The value of an expression, with these names."""

    def lookup(name: Name) -> Any:
        return names[name.text]

    return read(text).value(lookup)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 2 - 3", 5),
        ("7 % 4 + 1 / 2", Fraction(7, 2)),
        ("-a + 1", -4),
        ("not a == 5 or none == b", True),
        ("a > 4 and c == 'x y'", True),
        ("b > 1", False),
        ("b + 1", None),
        ("1 / 0", None),
        ("max(a, 7) - min(1, 2) + abs(0 - 3)", 9),
    ],
)
def test_expressions(text: str, result: Any) -> None:
    assert value(text, a=5, b=None, c="x y") == result


def test_names_have_parts_and_indices() -> None:
    assert [name.parts for name in read("spm.bank[3].denials + noc.r0c0-r0c1.members").names] == [
        ("spm", "bank", 3, "denials"),
        ("noc", "r0c0-r0c1", "members"),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "a b", "a[", "(a", "f(1)", "a = 1", "a; b", "().x", "a." * 3, "(" * 100 + "1", "1" * 2000, "@", '"open'],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read(text)


@settings(max_examples=40)
@given(st.text(st.sampled_from("ab01.[]()+-*/%<>=!'\" \u00e9_,"), max_size=40))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        found = read(text)
    except InputError:
        return
    found.value(lambda name: None)
