"""`kbsim llm --plan`: the plans that the planner compared for a layer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from kernbench.cli import output, widgets
from kernbench.cli.text import Justify, size_text, table
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.workloads.blocks.programs import BlockPrograms
    from kernbench.workloads.llm.steps import LlmPrograms, Segment
    from kernbench.workloads.parallel.programs import ParallelPrograms


def show_plans(programs: LlmPrograms | ParallelPrograms, *, as_json: bool, quiet: bool = False) -> int:
    """Show the plans that the planner compared for the first layer of each phase's first step."""
    from kernbench.workloads.blocks.programs import BlockPrograms
    from kernbench.workloads.planner import TENSORS, Candidate, compared_plans

    programs = first_stage(programs)
    if isinstance(programs, BlockPrograms):
        return _show_divisions(programs, as_json=as_json, quiet=quiet)
    job, shape = programs.job, programs.shapes[0]
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
        return _show_json(programs, plans)
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
    output.show(_planners(programs))
    return output.OK


def _show_json(programs: LlmPrograms, plans: Mapping[Any, Any]) -> int:
    """Show the plans or divisions of all phases, and the planners that were compared."""
    planners = {} if programs.compared is None else {"planners": asdict(programs.compared)}
    output.show_json({"model": programs.model.name, "machine": programs.machine.source, "plans": plans, **planners})
    return output.OK


def _planners(programs: LlmPrograms) -> Iterator[widgets.Text]:
    """The planner that `--search-divisions` chose, and why."""
    if (compared := programs.compared) is None:
        return
    whole = f"the planner of layers takes {compared.whole:,} cycles for all steps"
    if compared.divided is None:
        yield widgets.Text(f"used: {whole}; layers cannot be lowered part by part: {compared.refusal}")
    elif compared.divided_is_faster:
        yield widgets.Text(f"used: layers part by part take {compared.divided:,} cycles for all steps; {whole}")
    else:
        yield widgets.Text(f"used: {whole}; layers part by part take {compared.divided:,}")


def _show_divisions(programs: BlockPrograms, *, as_json: bool, quiet: bool) -> int:
    """Show how layers that are lowered part by part are divided, and the divisions that were compared by simulation: for each
    kind of layer in the first step of each phase."""
    from kernbench.cli.progress import counting_bar
    from kernbench.workloads.blocks.division import EXPERT_PARTS, LOADS

    kinds: dict[Hashable, Segment] = {}
    for step in {step.phase: step for step in reversed(programs.steps)}.values():
        for segment in programs.segments(step):
            if segment.kind == "layer":
                kinds.setdefault((segment.step, segment.shape), segment)
    plans: dict[str, list[dict[str, Any]]] = {}
    with counting_bar(not (quiet or as_json), "kinds of layers") as progress:
        for done, segment in enumerate(kinds.values()):
            if progress is not None:
                programs.on_compared = partial(progress, done, len(kinds))
            plans.setdefault(segment.step.phase, []).extend(_divisions(programs, segment))
        programs.on_compared = None
    plans = {phase: plans[phase] for phase in ("prefill", "decode") if phase in plans}
    if as_json:
        return _show_json(programs, plans)
    note = "simulated cycles of a layer; weights: eighths of the scratchpad, and those added for the network"
    columns: list[tuple[str, Justify]] = [(name, "left") for name in ("layer", "rows", "parts", "weights", "slices", "latents")]
    columns += [("cycles", "right"), ("", "left")]
    for phase, found in plans.items():
        made = table(f"Divisions of a layer, {phase}", columns, note)
        for row in found:
            tokens = f"{row['rows']}, then {row['network_rows']}" if row["network_rows"] else str(row["rows"])
            weights = "a few tiles" if not row["ring"] else f"{row['ring']}/8"
            weights += f" + {row['extra']}/8" if row["extra"] else ""
            weights += ", in order" if row["loads"] < LOADS else ""
            weights += f", {row['tiles']} tiles in progress" if row["tiles"] > 1 else ""
            parts, slices = (str(row[name] or "whole") for name in ("part_rows", "slices"))
            parts += " with products" if row["part_products"] else ", also of the router" if row["part_router"] else ""
            parts += f", {row['ahead']} ahead" if row["ahead"] else ""
            parts = f"in halves, {row['twice']}/{EXPERT_PARTS} of the experts twice" if row["twice"] else parts
            slices += f", last cut in half {row['halved']} times" if row["halved"] else ""
            latents, cycles = "shared" if row["shares_latents"] else "all", row["cycles"]
            number = "n/a" if cycles is None else f"{cycles:,}"
            made.add_row(str(row["layer"]), tokens, parts, weights, slices, latents, number, row["verdict"])
        output.show([made])
    output.show(_planners(programs))
    return output.OK


def _divisions(programs: BlockPrograms, segment: Segment) -> Iterator[dict[str, Any]]:
    """The divisions of a layer that were compared, each with its cycles and why it is not used."""
    used, compared = programs.compared_blocks(segment)
    least = next((cycles for blocks, cycles in compared if blocks == used), None) or 0
    for blocks, cycles in compared or [(used, None)]:
        verdict = _division_verdict(cycles, least) if compared else "used: the most rows that fit"
        verdict = "used" if compared and blocks == used else verdict
        yield {"layer": segment.layer, **asdict(blocks), "cycles": cycles, "verdict": verdict}


def _division_verdict(cycles: int | None, least: int) -> str:
    """Why a division is not used."""
    if cycles is None:
        return "does not fit"
    if cycles < least:
        return "slower with the first and the last layer"
    return f"{cycles / least - 1:.1%} slower" if cycles > least else "no faster"


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
