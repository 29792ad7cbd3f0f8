"""The executor of the command queue: passes, barriers and the issue width (docs/model/control.md, P2)."""

from __future__ import annotations

from kernbench import Program, load_config, simulate


def vector(program: Program, deps_before: list[int] | None = None, **fields: int) -> int:
    fields |= {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 1024}
    return program.ve_copy(length=64, qbits_activation=8, deps_before=deps_before or [], **fields)


def test_what_becomes_ready_behind_the_cursor_waits_for_the_next_pass() -> None:
    """Entry 0 waits for the NOP behind it; entry 2 comes later in the same pass and takes the cycle's only place."""
    program = Program("passes")
    vector(program, deps_before=[1], ve_id=0)
    program.nop()
    vector(program, ve_id=1)
    result = simulate(program, load_config({"control": {"issue_width": 1}}))
    assert [entry.issue for entry in result.entries] == [1, 0, 0]


def test_without_a_limit_the_next_pass_is_in_the_same_cycle() -> None:
    program = Program("passes")
    vector(program, deps_before=[1], ve_id=0)
    program.nop()
    assert [entry.issue for entry in simulate(program, load_config({})).entries] == [0, 0]


def test_a_barrier_holds_back_what_is_ready_behind_it() -> None:
    program = Program("barrier")
    first = vector(program, ve_id=0)
    barrier = program.barrier(wait_for=[first])
    vector(program, ve_id=1)
    result = simulate(program, load_config({}))
    assert result.entry(barrier).issue == result.entry(first).end
    assert result.entries[2].issue == result.entry(first).end
