"""`kbsim` on systems: runs, states, probes, and components that a file puts in the place of engines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kernbench import Machine
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
    monkeypatch.delitem(sys.modules, "systems_parts", raising=False)  # that of another test is in another directory
    return tmp_path


def run(kbsim: Any, *more: str) -> Any:
    return kbsim("run", "ring.json", "--config", "single_cube", "--allow-code", "systems_parts.py", *more)


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
        ("components.router.impl=systems_parts:Slow", "router runs no jobs: its class must be derived from PassivePart"),
        ("components.hbm_ctrl.impl=kernbench:PassivePart", "hbm_ctrl runs no jobs: its class must be derived from HbmCtrl"),
        ("components.host.impl=systems_parts:Slow", "it is the program that launches kernels; what can be replaced is pe_dma,"),
        ("components.pe_gemm.impl=systems_parts:Fast", "systems_parts has no Fast"),
        ("components.pe_gemm.impl=no_such_module:Slow", "the module no_such_module is not installed, and no"),
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


@pytest.mark.parametrize("level", ["full", "access"])
def test_programs_with_sends_are_traced_and_explained(ring: Path, kbsim: Any, level: str) -> None:
    assert run(kbsim, "--trace", "run.jsonl", "--trace-level", level).code == 0
    assert kbsim("trace", "validate", "run.jsonl").code == 0
    why = json.loads(kbsim("trace", "why", "run.jsonl", "--op", "2", "--json").out)
    # 5 cycles of edges, 4096 bytes at the 128 of the links, and nothing in the way: as the run says, 196 to 233.
    assert (why["start"], why["end"]) == (196, 233)
    assert {(total["cause"], total["cycles"]) for total in why["totals"]} == {("head", 5), ("transfer", 32)}
    said = kbsim("trace", "why", "run.jsonl")
    assert said.code == 0
    assert "100% of the run is M_CPU work: sip0.cube0.m_cpu" in said.out
    assert "4,096 B between scratchpads" in " ".join(kbsim("trace", "summary", "run.jsonl").out.split())
    for form in ("chrome", "perfetto", "csv", "parquet", "jsonl"):
        assert kbsim("trace", "export", "run.jsonl", "--to", form, "-o", f"run.{form}.out").code == 0
    assert kbsim("trace", "report", "run.jsonl", "-o", "run.html").code == 0
    assert kbsim("trace", "diff", "run.jsonl", "run.jsonl").code == 0


def test_a_program_is_checked_and_shown_on_a_system(ring: Path, kbsim: Any) -> None:
    checked = kbsim("program", "check", "ring.json", "-c", "single_cube")
    assert checked.out == "ring.json: 5 entries, valid on single_cube.yaml\n"
    bad = kbsim("program", "check", "ring.json", "-c", "single_cube", "--set", "cube.pes=1")
    assert bad.code == 2
    assert "single_cube.yaml has no PE of that name: its PEs are sip0.cube0.pe0 to sip0.cube0.pe0" in bad.err
    shown = json.loads(kbsim("program", "show", "ring.json", "-c", "single_cube", "--json").out)
    # A load of 4096 bytes over two channels of 51.2 B/cycle; as many between scratchpads.
    assert shown["dram_read"] == {"sip0.cube0.hbm_ctrl.ch0": 2048, "sip0.cube0.hbm_ctrl.ch1": 2048}
    assert (shown["asked_bytes"], shown["moved_bytes"], shown["elsewhere"]) == (8192, 8192, 4096)
    assert shown["macs"] == {"sip0.cube0.pe0.pe_gemm": 4096, "sip0.cube0.pe1.pe_gemm": 0}
    assert shown["bounds"]["sip0.cube0.m_cpu"] == shown["bounds"]["cycles"] == 411
    said = kbsim("program", "show", "ring.json", "-c", "single_cube")
    assert "4,096 B over no channel" in said.out and "Lower bounds of sip0.cube0" in said.out


def test_resources_of_a_system_are_freed(ring: Path, kbsim: Any) -> None:
    found = json.loads(kbsim("whatif", "ring.json", "-c", "single_cube", "--json").out)
    saved = {row["resources"][0]: row["saved"] for row in found["freed"]}
    # The launch is all of the run: of its 411 cycles 152 are PCIe, and 3 each the ways in the chiplet to and from its network.
    assert found["cycles"] == 411
    assert saved == {"noc": 158, "banks": 0, "dram": 0, "te": 0, "ve": 0, "dma": 0}
    assert kbsim("whatif", "ring.json", "-c", "single_cube").code == 0


def test_workloads_run_on_the_first_pe(kbsim: Any) -> None:
    said = json.loads(kbsim("run", "llama2-7b-decode", "--config", "single_cube", "--json").out)
    busy = {unit for unit, counters in said["counters"].items() if counters.get("jobs")}
    assert said["status"] == "done"
    assert busy and all(unit.startswith("sip0.cube0.pe0.") for unit in busy)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_probe_fits_the_terminal(columns: int, kbsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = kbsim("probe", "-c", "single_cube", "--sizes", "4KiB", "--only", "own_hbm,all_one_slice")
    assert said.code == 0
    assert all(len(line) <= columns for line in said.out.splitlines())
    assert "sip0.cube0.hbm_ctrl.ch0" in said.out
    rows = json.loads(kbsim("probe", "-c", "single_cube", "--sizes", "4KiB", "--only", "own_hbm", "--json").out)["rows"]
    assert [(row["cycles"], row["setup"], row["links"], row["transfer"]) for row in rows] == [(163, 120, 3, 40)]


def test_threads_run_groups_of_pes_with_the_same_result(tmp_path: Path, kbsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = Program("apart")
    for cube in range(4):
        load = program.dma_load(node=f"sip0.cube{cube}.pe0", tensor_role="weight", qbits=8, num_elements=4096 * (cube + 1),
                                dram_addr=cube * (16 << 30), spm_bank=0, spm_offset=0)  # fmt: skip
        program.te_gemm(node=f"sip0.cube{cube}.pe0", m=16, n=16, k=16, deps_before=[load], **TILE)
    program.save(tmp_path / "apart.json")
    assert Machine("sip_4x4", "apart.json", threads=3)._core.threads == 3  # four cubes, each with its own HBM
    one, three = (kbsim("run", "apart.json", "--config", "sip_4x4", "--json", "--threads", n) for n in "13")
    assert one == three and one.code == 0
    said = kbsim("run", "apart.json", "--config", "sip_4x4", "--threads", "0")
    assert said.code == 2 and "--threads" in said.err and "from 1 to 1024" in said.err
