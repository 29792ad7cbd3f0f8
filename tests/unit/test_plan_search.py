"""The search for the plan of a layer, against one that places every division of the scratchpad."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kernbench.config import load_config
from kernbench.config.kinds import as_npu
from kernbench.workloads.layer.buffers import STAGES, Buffering, LayerBuffers
from kernbench.workloads.models import ModelShape
from kernbench.workloads.planner import LayerPlan, _best, _best_in_turn, _blocks, _choices, _divided, _least_cycles, _levels
from tests.llm_cases import CASES

SHARD = ModelShape(name="shard", layers=1, hidden=1536, heads=4, kv_heads=2, head_dim=128, ffn=1024, post_norms=True, shards=8)


def choice(plan: LayerPlan | None) -> Any:
    """All of a plan."""
    return None if plan is None else (replace(plan, scratchpad=None), plan.scratchpad.buffers)  # type: ignore[arg-type]


def first_least(plans: Iterable[tuple[Any, LayerPlan | None]]) -> LayerPlan | None:
    """The first plan with the smallest key, of those that fit."""
    return min(((key, plan) for key, plan in plans if plan is not None), key=lambda found: found[0], default=(0, None))[1]


def best_of_all(buffers: LayerBuffers, level: Buffering) -> LayerPlan | None:
    """The plan that takes least cycles, and then moves least."""
    found = []
    for resident in _choices():
        blocks = _blocks(buffers, level, resident)
        plan = None if blocks is None else _divided(buffers, level, resident, blocks)
        if blocks is not None and plan is not None:
            plan = replace(plan, least_cycles=_least_cycles(buffers, level, plan.dram_bytes, blocks))
            found.append(((plan.least_cycles, plan.dram_bytes), plan))
    return first_least(found)


def moving_least(buffers: LayerBuffers, level: Buffering, m: int) -> LayerPlan | None:
    """The plan of stages in turn that moves least: the one without resident tensors, if no other moves less."""
    blocks = (m,) * len(STAGES)
    none = _divided(buffers, level, frozenset(), blocks, in_turn=True)
    if none is None:
        return None
    plans = [none, *(_divided(buffers, level, resident, blocks, in_turn=True) for resident in _choices())]
    return first_least((None if plan is None else plan.dram_bytes, plan) for plan in plans)


@pytest.mark.parametrize("name", ["plain", "post_tight", "experts", "mixed"])
def test_the_best_plan_is_the_best_of_all_that_fit(name: str) -> None:
    programs = CASES[name].programs()
    step, job = programs.steps[0], programs.job
    buffers = LayerBuffers(programs.shapes[0], programs.machine, step.tokens, step.context, job.batch, job.page_tokens)
    levels = [level for level in _levels(programs.machine)[::5] if buffers.has_tiles(level)]
    found = [_best(buffers, level) for level in levels]
    assert any(found)
    assert [choice(plan) for plan in found] == [choice(best_of_all(buffers, level)) for level in levels]


@pytest.mark.parametrize("kib", [256, 2048])
def test_the_best_plan_in_turn_moves_least_of_all_that_fit(kib: int) -> None:
    """Whether the buffers fit is known beforehand only where they do not."""
    machine = as_npu(load_config("single_cube", [f"pe.spm.bank_size_bytes={kib << 6}"]))
    buffers = LayerBuffers(SHARD, machine, 512, 64)
    found = {}
    for level in _levels(machine)[::3]:
        for m in (256, 128):
            plan = found[level, m] = _best_in_turn(buffers, level, m)
            wanted = moving_least(buffers, level, m)
            assert choice(plan and replace(plan, least_cycles=0)) == choice(wanted)
    assert None in found.values()
    if kib == 2048:
        assert any(found.values())
