"""The suite `plans`: which machines and models its rows have."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kernbench.cmdq.program import Program
from kernbench.config import NpuConfig, SystemConfig, load_config, machine_names
from kernbench.config.kinds import as_npu
from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import read_suite_data
from kernbench.validate.suites import plans
from kernbench.workloads.blocks.programs import programs_of
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.files import load_model, preset_models
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.fitting import least_bytes
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.programs import grid_job

DATA = read_suite_data("plans")
STAND = Runner(Options())


class Instant(Runner):
    """Programs take one cycle."""

    def cycles(self, program: Program, config: NpuConfig | SystemConfig) -> int:
        return 1


def test_every_machine_has_rows_or_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "product_share", lambda *_: Fraction(1))
    monkeypatch.setattr(plans, "largest_prefill", lambda *_: plans.Prefill("a model", Fraction(1, 2), None))
    found = [row.case.partition(", ")[0].partition(" of ")[0] for row in plans.rows(DATA, STAND)]
    for what, left_out in (("product", "no_product"), ("prefill", "no_prefill")):
        with_rows = {case.partition(":")[0] for case in found if case.endswith(f": {what}")}
        assert with_rows.isdisjoint(DATA.fact(left_out))
        assert with_rows | set(DATA.fact(left_out)) == set(machine_names())
        said = plans.left_out(DATA, STAND)
        assert all(machine in said and why in said for machine, why in DATA.fact(left_out).items())
    for limits in ("product_limits", "prefill_limits"):
        assert set(DATA.fact(limits)) <= set(machine_names())


def test_rows_below_the_goal_fail_unless_a_limit_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "product_share", lambda *_: Fraction(84, 100))
    monkeypatch.setattr(plans, "largest_prefill", lambda *_: plans.Prefill("a model", Fraction(86, 100), Fraction(99, 100)))
    verdicts = {row.case: row.verdict for row in plans.rows(DATA, STAND)}
    assert verdicts["a100: product, 16 bits"] == "fail" and verdicts["a100: prefill of a model"] == "pass"
    limits = [f"{name}: product, 8 bits" for name in DATA.fact("product_limits")]
    limits += [f"{name}: prefill of a model" for name in DATA.fact("prefill_limits")]
    assert limits and all(verdicts[case] == "info" for case in limits)
    assert verdicts["a100: prefill of a model, with links"] == "info"


@pytest.mark.parametrize("machine", ["tpuv5e", "wormhole_n300"])
def test_the_model_is_the_largest_that_the_memory_may_hold(machine: str) -> None:
    """No larger model has room for its weights and its cache; `wormhole_n300` has two chips."""
    config = load_config(machine)
    chips = 2 if machine == "wormhole_n300" else 1
    found = plans.largest_prefill(machine, DATA, Instant(Options()))
    assert found is not None
    name = found.case.partition(",")[0]
    assert ("--tp 2" in found.case) == (chips == 2)
    assert (found.with_links is None) == (chips == 1)
    job, room = Job(prompt=512, tokens=1, phases=("prefill",)), as_npu(config).dram.capacity_bytes
    larger = [model for model in map(load_model, preset_models()) if model.parameters > load_model(name).parameters]
    assert larger and all(least_bytes(model, Precision(), job, Layout(chips)) > room for model in larger)


def test_a_bound_with_links_has_each_collective_of_each_layer() -> None:
    """Without other work, collectives in sequence take as long as the difference of the two bounds says."""
    job = Job(prompt=32, tokens=1, phases=("prefill",), reduction="ring", layers=2)
    programs = programs_of(load_model("llama3.2-1b"), Precision(), load_config("wormhole_n300"), grid_job(job, Layout(2)))
    share, with_links = plans.prefill_shares(programs, Instant(Options()))
    assert with_links is not None
    sums = {sent for sent in programs.reduced if sent.name == "all-reduce"}
    alone = sum(programs.collective_cycles(sent) for sent in sums)
    segments = list(programs.segments(programs.steps[0]))
    others = [sent for sent in programs.reduced if sent.name != "all-reduce"]
    assert len(sums) == 1 and alone > 0
    assert (with_links - share) * len(segments) == 2 * 2 * alone + sum(map(programs.collective_cycles, others))


@pytest.mark.parametrize("machine", ["ndp120", "ethos_u65"])
def test_machines_without_a_prefill_hold_no_model(machine: str) -> None:
    assert machine in DATA.fact("no_prefill")
    assert plans.largest_prefill(machine, DATA, STAND) is None
