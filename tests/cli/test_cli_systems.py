"""`kbsim` on systems: runs, states, probes, and components that a file puts in the place of engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq import Program
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate

SLOW = '''
from dataclasses import dataclass
from kernbench import BUSY, NEVER, Component

class Slow(Component, kind="slow"):
    """A tensor engine of `latency` cycles a job."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        latency: int = 100

    def __init__(self, spec=None, **fields):
        super().__init__(spec, **fields)
        self.job, self.due, self.free_at = None, NEVER, 0

    def accept(self, job, now):
        if self.job is not None or now < self.free_at:
            return BUSY
        self.job, self.due = job.id, now + self.spec.latency - 1
        return self.due

    def step(self, now):
        if now == self.due:
            self.complete(self.job)
            self.job, self.due, self.free_at = None, NEVER, now + 1
        return self.due

class Broken(Slow, kind="broken"):
    """It fails at its first job."""

    def accept(self, job, now):
        raise RuntimeError(f"no idea what to do with job {job.id}")
'''
TILE = {"qbits_weight": 8, "qbits_activation": 8, "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2,
        "ofm_offset": 0}  # fmt: skip


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program over two PEs, and the module of components beside it."""
    program = Program("ring")
    load = program.dma_load(node="sip0.cube0.pe0", tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0,
                            spm_offset=0)  # fmt: skip
    gemm = program.te_gemm(node="sip0.cube0.pe0", m=16, n=16, k=16, deps_before=[load], **TILE)
    program.dma_send(node="sip0.cube0.pe0", peer="sip0.cube0.pe1", tensor_role="activation", qbits=8, num_elements=4096,
                     spm_bank=0, spm_offset=0, peer_bank=0, peer_offset=0, deps_before=[gemm])  # fmt: skip
    program.launch(node="sip0.cube0.m_cpu")
    program.end()
    program.save(tmp_path / "ring.json")
    (tmp_path / "systems_parts.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run(kbsim: Any, *more: str) -> Any:
    return kbsim("run", "ring.json", "--config", "single_cube", *more)


def test_a_program_over_pes_runs(ring: Path, kbsim: Any) -> None:
    said = run(kbsim, "--json")
    result = json.loads(said.out)
    # 120 setup, 3 cycles of edges and 4096 bytes at 102.4 a cycle; 16 + 1 + 16 of the product; 5 cycles and 4096 bytes at 128.
    assert [(e["start"], e["end"]) for e in result["entries"][:3]] == [(0, 163), (163, 196), (196, 233)]
    assert said.code == 0
    assert result["counters"]["sip0.cube0.m_cpu"]["launches"] == 1


def test_a_class_of_the_file_takes_the_place_of_every_tensor_engine(ring: Path, kbsim: Any) -> None:
    plain = json.loads(run(kbsim, "--json").out)
    slow = json.loads(run(kbsim, "--json", "--set", "components.pe_gemm.impl=systems_parts:Slow", "--set",
                          "components.pe_gemm.latency=50").out)  # fmt: skip
    assert [(e["start"], e["end"]) for e in slow["entries"][:3]] == [(0, 163), (163, 213), (213, 250)]
    for name in ("jobs", "macs"):
        assert slow["counters"]["sip0.cube0.pe0.pe_gemm"][name] == plain["counters"]["sip0.cube0.pe0.pe_gemm"][name]


def test_a_component_that_raises_ends_the_run_with_its_traceback_and_a_valid_trace(ring: Path, kbsim: Any) -> None:
    said = run(kbsim, "--set", "components.pe_gemm.impl=systems_parts:Broken", "--trace", "run.jsonl")
    assert said.code == 5
    text = "".join(said.out.split())  # long paths are wrapped
    assert "noideawhattodowithjob" in text
    assert "systems_parts.py" in text  # of the traceback
    assert "sip0.cube0.pe0.pe_gemm" in text
    report = validate(open_trace(ring / "run.jsonl"))
    assert report.valid, report.violations


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ("components.router.impl=systems_parts:Slow", "only what runs jobs can be replaced: pe_dma, pcie_ep, pe_gemm, pe_math"),
        ("components.pe_gemm.impl=systems_parts:Fast", "has no attribute 'Fast'"),
        ("components.pe_gemm.impl=no_such_module:Slow", "No module named 'no_such_module'"),
    ],
)
def test_a_component_that_cannot_be_had_is_refused(ring: Path, kbsim: Any, setting: str, rule: str) -> None:
    said = run(kbsim, "--set", setting)
    assert (said.code, said.out) == (2, "")
    assert rule in said.err


def test_a_summary_trace_of_a_system_is_valid_and_names_its_nodes(ring: Path, kbsim: Any) -> None:
    assert run(kbsim, "--trace", "run.jsonl").code == 0
    assert kbsim("trace", "validate", "run.jsonl").code == 0
    units = open_trace(ring / "run.jsonl").meta.units
    parents = {unit["unit"]: unit["parent"] for unit in units}
    assert parents["sip0.cube0.pe1.pe_tcm"] == "sip0.cube0.pe1"
    assert parents["sip0.cube0.m_cpu"] == "sip0.cube0"


def test_full_traces_know_no_transfers_between_scratchpads(ring: Path, kbsim: Any) -> None:
    said = run(kbsim, "--trace", "run.jsonl", "--trace-level", "full")
    assert said.code == 2
    assert said.err == (
        'error: trace: level = "full", but a transfer between scratchpads has no DRAM channel, and the events of this level '
        "are about those; take the level summary\n"
    )
    assert not (ring / "run.jsonl").exists()


def test_workloads_are_for_one_npu(kbsim: Any) -> None:
    said = kbsim("run", "llama2-7b-decode", "--config", "single_cube")
    assert (said.code, said.err) == (
        2,
        "error: llama2-7b-decode: this workload is for one NPU, and single_cube.yaml is a system; take a machine of "
        "kernbench/npu/1, as npu_server\n",
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_a_probe_fits_the_terminal(columns: int, kbsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = kbsim("probe", "single_cube", "--sizes", "4KiB", "--only", "own_hbm,all_one_slice")
    assert said.code == 0
    assert all(len(line) <= columns for line in said.out.splitlines())
    assert "sip0.cube0.hbm_ctrl.ch0" in said.out
    rows = json.loads(kbsim("probe", "single_cube", "--sizes", "4KiB", "--only", "own_hbm", "--json").out)["rows"]
    assert [(row["cycles"], row["setup"], row["links"], row["transfer"]) for row in rows] == [(163, 120, 3, 40)]
