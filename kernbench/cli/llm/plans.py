"""`kbsim llm --plan`: the plans that the planner compared for a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.cli.text import Justify, size_text, table
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.workloads.llm.steps import LlmPrograms
    from kernbench.workloads.parallel.programs import ParallelPrograms


def show_plans(programs: LlmPrograms | ParallelPrograms, *, as_json: bool) -> int:
    """Show the plans that the planner compared for the first layer of each phase's first step."""
    from kernbench.workloads.planner import TENSORS, Candidate, compared_plans

    programs = first_stage(programs)
    job, shape = programs.job, programs.shapes[0]
    check_planned(programs, "--plan")
    summed = programs.sums_of(shape)
    steps = {step.phase: step for step in reversed(programs.steps)}
    found = {
        phase: compared_plans(shape, programs.machine, step.tokens, step.context, job.batch, job.page_tokens, summed)
        for phase, step in reversed(steps.items())
    }

    def facts(one: Candidate) -> dict[str, Any]:
        plan = one.plan
        head: dict[str, Any] = {"tile_bytes": one.level.tile_bytes, "tiles": one.level.weight_tiles, "verdict": one.verdict}
        if plan is None:
            return head | {"block_tokens": None, "resident": None, "least_cycles": None, "dram_bytes": None}
        stays = sorted(plan.resident)
        blocks = list(plan.block_tokens)
        return head | {
            "block_tokens": blocks, "resident": stays, "least_cycles": plan.least_cycles, "dram_bytes": plan.dram_bytes,
        }  # fmt: skip

    plans = {phase: [facts(one) for one in candidates] for phase, candidates in found.items()}
    if as_json:
        output.show_json({"model": programs.model.name, "machine": programs.machine.source, "plans": plans})
        return output.OK
    note = "a layer's products and transfers at full rate; the first within 5% of the best is used"
    columns: list[tuple[str, Justify]] = [(name, "left") for name in ("weights", "tokens", "stays")]
    columns += [("cycles", "right"), ("", "left")]
    for phase, rows in plans.items():
        made = table(f"Plans of a layer, {phase}", columns, note)
        for row in rows:
            blocks = ", ".join(map(str, dict.fromkeys(row["block_tokens"] or ())))
            cycles = "n/a" if row["least_cycles"] is None else f"{row['least_cycles']:,}"
            stays = "n/a" if row["resident"] is None else ", ".join(row["resident"]) or "nothing"
            stays = "all" if len(row["resident"] or ()) == len(TENSORS) else stays
            made.add_row(f"{row['tiles']} x {size_text(row['tile_bytes'])}", blocks, stays, cycles, row["verdict"])
        output.show([made])
    return output.OK


def first_stage(programs: LlmPrograms | ParallelPrograms) -> LlmPrograms:
    """The programs of one group of PEs: of a pipeline those of the first stage."""
    from kernbench.workloads.llm.steps import LlmPrograms as OfOneGroup

    return programs if isinstance(programs, OfOneGroup) else programs.stage(0, programs.sizes[0])


def check_planned(programs: LlmPrograms, option: str) -> None:
    """InputError if the layers are lowered part by part, which has no plan to show."""
    from kernbench.workloads.blocks.programs import BlockPrograms

    if isinstance(programs, BlockPrograms):
        rule = f"the layers of {programs.model.name} are lowered part by part, without a plan"
        raise InputError(Problem("kbsim llm", rule, option, remedy=f"run it without {option}"))
