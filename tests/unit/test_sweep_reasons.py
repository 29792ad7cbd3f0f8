"""Why points of a sweep take what they take: a sentence each, whatever the target is."""

from __future__ import annotations

from pathlib import Path

from kernbench.ccl import measure
from kernbench.ccl.call import Queues
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.registry import read_registry
from kernbench.cli.tracing import traced
from kernbench.config import NpuConfig, load_config
from kernbench.config.system import SystemConfig
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from kernbench.sweep.report.table import read_table, reasons_of
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.work import Work
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from tests.sweep_samples import run_spec, write_spec
from tests.unit.test_sweep_ccl import Here


def reasons(folder: Path, text: str) -> list[str]:
    """Of all points of a spec, in their order."""
    path = write_spec(folder, "schema: kernbench/sweep/1\n" + text)
    spec = load_spec(path)
    run_spec(path, folder / "s.sqlite", Here(Work(spec.targets, spec.machines)))  # type: ignore[arg-type]
    with Store.read(folder / "s.sqlite") as store:
        table = read_table(store)
    found = reasons_of(table, table.entries)
    return [found[entry.task.key] for entry in table.entries]


def test_of_a_collective_it_is_that_of_its_trace(tmp_path: Path) -> None:
    call = "{ccl: all_reduce, params: {algo: ring, ranks: 4, size: 8 KiB, slot_bytes: 2 KiB, tier: tcm}}"
    few, many = reasons(tmp_path, f"machine: single_cube\ntargets: [{call}]\naxes: {{param.slots: [1, 8]}}\n")
    config = load_config("single_cube", kind=SystemConfig)
    entry = read_registry().find("all_reduce", "ring")
    asked = measure.CclRequest(config, group_of(config, shape_for(config, 4)), entry, "f16", Queues(1, 2048, "tcm"), check=True)
    path = tmp_path / "run.jsonl"
    measure.row(asked, 4096, around=lambda machine: traced(machine, path, TraceOptions("full")))
    assert few == explain(open_trace(path)).sentence and few != many


def test_of_a_language_model_it_is_that_of_what_takes_longest(tmp_path: Path) -> None:
    model = "{llm: llama2-7b, params: {phase: decode, prompt: 8, tokens: 2, layers: 2, w: 4}}"
    (sentence,) = reasons(tmp_path, f"machine: npu_server\ntargets: [{model}]\n")
    config = load_config("npu_server", kind=NpuConfig)
    job = Job(prompt=8, tokens=2, layers=2, phases=("decode",))
    programs = LlmPrograms(load_model("llama2-7b"), uniform_precision(w=4, a=None, kv=None), config, job)
    cycles = {}
    for step in programs.steps:
        for segment in programs.segments(step):
            machine = Machine(config, programs.segment_program(segment))
            machine.run()
            cycles[segment] = machine.cycle
    layers = {segment: cycle for segment, cycle in cycles.items() if segment.kind == "layer"}
    share = sum(layers.values()) / sum(cycles.values())
    assert share > 0.5
    machine = Machine(config, programs.segment_program(max(layers, key=lambda segment: layers[segment])))
    path = tmp_path / "run.jsonl"
    with traced(machine, path, TraceOptions("full")):
        machine.run()
    of = f"{share:.0%} of the cycles are decode layers; {machine.program.name}: "
    assert sentence == of + explain(open_trace(path)).sentence
