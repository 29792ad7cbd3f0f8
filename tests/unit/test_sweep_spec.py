"""Specs: what they say, and every way in which one is refused before its first run."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from kernbench import Machine, Program, load_config, load_program, simulate
from kernbench.cmdq.plan import plan_npu
from kernbench.cmdq.shared_plans import Plans
from kernbench.common.errors import InputError
from kernbench.config.cache import NpuLlc
from kernbench.config.schema import Control, MicroScheduler, Mmio
from kernbench.sweep.machines import Machines
from kernbench.sweep.points import Points, points_of
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.work import Work
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from tests.sweep_samples import SPEC, write_spec

HEAD = "schema: kernbench/sweep/1\ntargets: [tiles.json]\nmachine: small.yaml\n"


def points(folder: Path, text: str) -> Points:
    return points_of(load_spec(write_spec(folder, HEAD + text)))


def refused(folder: Path, text: str, head: str = HEAD) -> list[str]:
    """The lines of what is said, without the folder."""
    path = write_spec(folder, head + text)
    with pytest.raises(InputError) as error:
        points_of(load_spec(path))
    return str(error.value).replace(f"{folder}/", "").split("\n")


def test_the_whole_grid_in_order(tmp_path: Path) -> None:
    found = points(
        tmp_path,
        "axes:\n  dram.t_setup_cycles: [1, 2]\n  te.engines: [2, 4]\nzip:\n- {freq_ghz: [1, 1.5], max_cycles: [1000, 2000]}\n",
    )
    assert found.spec.names == ("dram.t_setup_cycles", "te.engines", "freq_ghz", "max_cycles")
    assert [point.values for point in found.points][:3] == [(1, 2, 1, 1000), (1, 2, 1.5, 2000), (1, 4, 1, 1000)]
    assert len(found) == 8 and len({point.task.key for point in found.points}) == 8


def test_no_axes_are_one_point(tmp_path: Path) -> None:
    assert [point.values for point in points(tmp_path, "").points] == [()]


def test_conditions_leave_points_out(tmp_path: Path) -> None:
    found = points(
        tmp_path,
        "axes: {ve.engines: [1, 2], te.engines: [2, 3, 4]}\nwhere: [te.engines <= 2 * ve.engines, spm.num_banks == 8]\n",
    )
    assert [point.values for point in found.points] == [(1, 2), (2, 2), (2, 3), (2, 4)]
    assert found.excluded == 2


def test_invalid_points_may_be_skipped(tmp_path: Path) -> None:
    found = points(tmp_path, "axes: {te.engines: [-1, 2, 0, 4]}\ninvalid: skip\n")
    assert found.invalid == len(refused(tmp_path, "axes: {te.engines: [-1, 2, 0, 4]}\n")) and found.invalid > 0
    assert len(found) == 4 - found.invalid


def test_the_key_is_of_content(tmp_path: Path) -> None:
    """Neither names nor files are in it: a value that is set, varied or in the file is the same machine."""
    varied = points(tmp_path, "axes: {dram.t_setup_cycles: [10, 20]}\n").points
    by_set = points(tmp_path, "name: other\nset: {dram.t_setup_cycles: 20}\n").points
    assert varied[1].task.key == by_set[0].task.key != varied[0].task.key
    assert varied[0].task.key == points(tmp_path, "").points[0].task.key  # 10 is in the file
    assert (
        len({point.task.key for point in points(tmp_path, "axes: {dram.t_setup_cycles: [10], freq_ghz: [1.5, 3/2]}\n").points})
        == 1
    )
    text = (tmp_path / "tiles.json").read_text(encoding="utf-8").replace('"name": "tiles"', '"name": "other"')
    (tmp_path / "again.json").write_text(text, encoding="utf-8")
    spec = (HEAD + "").replace("tiles.json", "again.json")
    (tmp_path / "again.yaml").write_text(spec, encoding="utf-8")
    assert points_of(load_spec(tmp_path / "again.yaml")).points[0].task.key != varied[0].task.key  # a program has a name


def test_sections_seen_before_make_the_same_machine(tmp_path: Path) -> None:
    found = points(tmp_path, "axes: {dram.t_setup_cycles: [1, 2], te.f_w.4: [1, 2], te.engines: [2, 3], freq_ghz: [1, 2]}\n")
    machine = found.spec.machines[0]
    for point in found.points:
        config, digest = machine.at(point.task.settings)
        direct = load_config(tmp_path / "small.yaml", dict(point.task.settings))
        assert config == direct and digest == direct.digest()
        again = machine.again(point.task.settings)
        assert again == direct and again.digest() == digest and again.te.rate(4, 8) == direct.te.rate(4, 8)


def test_rules_between_sections_hold_of_sections_seen_before() -> None:
    """Each section is valid beside the others of one machine, and not beside those of the other."""
    machine = Machines("mesh", load_config("npu_server").to_dict())
    ends = [[[k // 4, k % 4] for k in range(channels)] for channels in (1, 2)]
    settings = [[(("dram.channels", n + 1), ("noc.dram_at", ends[m])) for m in range(2)] for n in range(2)]
    for n in range(2):
        assert machine.at(settings[n][n])[0] == load_config("npu_server", dict(settings[n][n]))
    for n in range(2):
        with pytest.raises(InputError, match=r"noc\.dram_at"):
            machine.at(settings[n][1 - n])


def test_a_sample_draws_each_axis_within_its_range(tmp_path: Path) -> None:
    text = (
        "axes: {te.macs_per_cycle: {from: 64, to: 1024, multiple_of: 64}, freq_ghz: {from: 1.0, to: 2.0}, te.engines: [2, 4]}\n"
    )
    found = points(tmp_path, text + "sample: {sobol: 16, seed: 5}\n")
    macs, freq, engines = zip(*(point.values for point in found.points), strict=True)
    assert len(found) == 16 and all(value % 64 == 0 for value in macs) and all(1 <= value <= 2 for value in freq)
    assert sorted(int((value - 1) * 16) for value in freq) == list(range(16)) and engines.count(2) == engines.count(4) == 8
    assert [p.values for p in points(tmp_path, text + "sample: {sobol: 16, seed: 5}\n").points] == [
        p.values for p in found.points
    ]
    assert [p.values for p in points(tmp_path, text + "sample: {random: 16, seed: 5}\n").points] != [
        p.values for p in found.points
    ]


def test_benches_and_llm_targets_have_parameters(tmp_path: Path) -> None:
    head = "schema: kernbench/sweep/1\n"
    text = "targets: [{bench: vector_add, params: {n: 1024}}]\naxes: {param.n: [512, 1024]}\n"
    (tmp_path / "b.yaml").write_text(head + text.replace("vector_add", "gemm").replace("n: 1024", "m: 256"), encoding="utf-8")
    found = points_of(load_spec(tmp_path / "b.yaml"))
    assert [point.task.params for point in found.points] == [{"n": 512}, {"n": 1024}]
    assert found.spec.machines[0].label == "npu_server" and not found.spec.targets[0].native


def test_machines_as_a_list(tmp_path: Path) -> None:
    path = write_spec(tmp_path, HEAD.replace("machine: small.yaml", "machine: [small.yaml, npu_server]"))
    assert [machine.label for machine in load_spec(path).machines] == ["small.yaml", "npu_server"]


def test_every_target_runs_on_every_machine(tmp_path: Path) -> None:
    head = "schema: kernbench/sweep/1\ntargets: [tiles.json, llama2-7b-decode]\nmachine: [small.yaml, npu_server]\n"
    found = points_of(load_spec(write_spec(tmp_path, head)))
    ran = {(point.task.target, point.task.machine) for point in found.points}
    assert len(found.points) == 4 and len(ran) == 4


def test_refused_heads(tmp_path: Path) -> None:
    assert refused(tmp_path, "", "schema: kernbench/npu/1\ntargets: [tiles.json]\n") == [
        "s.yaml: this is a machine, but a sweep is expected; "
        "to sweep over values of this machine, write `machine: s.yaml` in a sweep file"
    ]
    assert refused(tmp_path, "", "schema: kernbench/sweep/1\n") == [
        "s.yaml:1:1: targets: a sweep must have at least one target"
    ]
    head = "schema: kernbench/sweep/1\ntargets: [none.json, {bench: gemm, params: {k: x}}, {}]\nmachine: small.yaml\n"
    assert refused(tmp_path, "", head) == [
        "s.yaml:2:11: targets[0]: none.json: the file does not exist",
        's.yaml:2:22: targets[1]: bench gemm: k = "x", but it must be an integer',
        "s.yaml:2:53: targets[2] = an empty mapping, but it must be a name or a file, "
        "or a mapping with one of program, workload, bench, llm, op, ccl, serve",
    ]
    head = "schema: kernbench/sweep/1\ntargets: [tiles.json, tiles.json]\nmachine: no_such\n"
    assert refused(tmp_path, "", head)[0].startswith('s.yaml:2:23: targets[1] = "tiles", but two targets have this label; give')
    head = "schema: kernbench/sweep/1\ntargets: [tiles.json]\nmachine: [small.yaml, npu_mobile, small.yaml]\n"
    assert refused(tmp_path, "", head) == ['s.yaml:3:35: machine[2] = "small.yaml", but this machine is twice in the list']


def test_a_language_model_takes_what_kbsim_llm_says(tmp_path: Path) -> None:
    """Cycles, bytes and energy are those of `run_llm`, and the limit is its."""
    text = "targets: [{llm: llama2-7b, params: {phase: decode, prompt: 8, tokens: 2, layers: 2}}]\nmachine: npu_server\n"
    (tmp_path / "l.yaml").write_text("schema: kernbench/sweep/1\n" + text + "axes: {param.w: [4, 8]}\n", encoding="utf-8")
    spec = load_spec(tmp_path / "l.yaml")
    work = Work(spec.targets, spec.machines)
    for point in points_of(spec).points:
        row = work.run(point.task)
        precision = uniform_precision(w=point.values[0], a=None, kv=None)
        job = Job(prompt=8, tokens=2, layers=2, phases=("decode",))
        run = run_llm(LlmPrograms(load_model("llama2-7b"), precision, load_config("npu_server"), job))
        assert (row.status, row.cycles) == ("done", sum(step.total.cycles for step in run.steps))
        assert row.metrics["dram_bytes"] == sum(sum(step.total.bytes.values()) for step in run.steps)
        energy = sum(sum(step.total.energy_pj.values()) for step in run.steps)
        assert row.metrics["energy_pj"] == pytest.approx(energy) and row.metrics["bound_by"] == run.steps[0].total.limit[0]
        assert row.metrics["tokens_per_s"] == pytest.approx(2 / (float(row.cycles or 0) / 10**9))


def test_programs_lowered_once_take_the_same(tmp_path: Path) -> None:
    """Whatever varies, a plan that was kept gives the result of one made again; where no job depends on it, it is kept."""
    rules = "allocation: [shared_bw_v1, max_min_v1, fifo_v1]"
    rates = "dram.t_setup_cycles: [1, 40], dram.peak_bw_bytes_per_cycle: [8, 32]"
    axes = f"axes: {{freq_ghz: [1, 1.5], {rules}, {rates}, control.issue_width: [0, 1], te.engines: [2, 3]}}\n"
    found = points(tmp_path, axes + "set: {energy.static_mw: 5}\n")
    machines, program = found.spec.machines[0], load_program(tmp_path / "tiles.json")
    plans, made = Plans(program), []
    for point in found.points:
        config = machines.again(point.task.settings)
        plan = plans.of(config)  # type: ignore[arg-type]
        made.append(id(plan.program))
        machine = Machine(config, program, plan=plan)  # type: ignore[arg-type]
        machine.run()
        direct = load_config(tmp_path / "small.yaml", dict(point.task.settings) | {"energy.static_mw": 5})
        assert machine.result().to_dict() | {"machine": ""} == simulate(program, direct).to_dict() | {"machine": ""}
    assert len(set(made)) == 2  # by the tensor engines alone


def test_a_plan_for_a_machine_without_a_cache_is_none_for_one_with_it() -> None:
    """Sections are the same objects but for the cache, behind which routes are others."""
    program = Program("store")
    program.dma_store(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0)
    bare = load_config({})
    cached = bare.model_copy(update={"llc": NpuLlc(capacity_bytes=65536, bw_bytes_per_cycle=Fraction(64))})
    plans = Plans(program)
    for config in (bare, cached):
        plan, again = plans.of(config), plan_npu(program, config)
        assert plan.resources == again.resources
        assert plan.program["dma"]["route"].tolist() == again.program["dma"]["route"].tolist()


def test_plans_are_shared_by_machines_whose_queues_work_alike() -> None:
    """A host must know which entries it writes, and a micro-scheduler divides commands into other jobs."""
    program = Program("store")
    program.dma_store(tensor_role="weight", qbits=8, num_elements=64, dram_addr=0, spm_bank=0, spm_offset=0, source="MMIO")
    bare = load_config({})
    hosted = bare.model_copy(update={"control": Control(mmio=Mmio(write_cycles=7))})
    tiles = Program("tiles")
    tiles.ve_copy(length=64, qbits_activation=8, in_bank=0, in_offset=0, out_bank=0, out_offset=64)
    divided, finer = (
        bare.model_copy(update={"control": Control(micro_scheduler=MicroScheduler(chunk_elements=size))}) for size in (32, 16)
    )
    jobs = Plans(tiles)
    assert [len(jobs.of(config).program["op"]) for config in (bare, divided, finer, divided)] == [1, 2, 4, 2]
    plans = Plans(program)
    cycles = []
    for config in (bare, hosted, bare):
        machine = Machine(config, program, plan=plans.of(config))
        machine.run()
        cycles.append(machine.cycle)
    assert cycles == [cycles[0], cycles[0] + 7, cycles[0]]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30])
def test_integers_that_no_store_can_hold_are_refused(tmp_path: Path, value: int) -> None:
    path = write_spec(tmp_path, SPEC.replace("[10, 50]", f"[10, {value}]"))
    with pytest.raises(InputError) as error:
        load_spec(path)
    rule = f"it must be an integer from {-(2**63)} to {2**63 - 1}"
    assert str(error.value) == f"{path}:5:29: axes.dram.t_setup_cycles[1] = {value}, but {rule}"
