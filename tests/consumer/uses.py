"""A project that uses kernbench: `mypy --strict` checks it against the types that the package installs (py.typed)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import assert_type

import numpy as np

import kernbench as kb
from kernbench.config import preset_names
from kernbench.pytest import Kbsim, assert_cycles
from kernbench.runtime_api import DeviceTensor
from kernbench.sim_engine.engine import TimingResult
from kernbench.sim_engine.result import EntryTimes
from kernbench_core import BankRequest, Environment, Job, Process, Scratchpad
from kernbench_core.standalone.process import Waits


def gemm() -> int:
    run = kb.run("gemm", config="npu_server", m=512)
    assert_type(run, kb.Run)
    assert_type(run.cycles, int)
    assert_type(run.t_ns, float)
    assert_type(run.verified, bool | None)
    assert_type(run.why(), kb.Explanation)
    print(run.why().sentence, run.metrics["dram_bytes"], run.to_frame("engines", library="pandas"))
    return run.cycles


def answers(folder: Path) -> list[str]:
    compared = kb.compare("gemm", ["npu_mobile", "npu_server"])
    assert_type(compared, kb.Comparison)
    tried = kb.whatif("gemm", "npu_server", free=["dram"])
    assert_type(tried, kb.WhatIfs)
    model = kb.llm("llama3-8b", "npu_server", prompt=128, tokens=4)
    assert_type(model, kb.LlmRun)
    probed = kb.probe("single_cube", sizes=["4KiB"])
    assert_type(probed, kb.ProbeResult)
    swept = kb.sweep("gemm", {"dram.channels": [2, 4]}, config="npu_mobile", store=folder / "results.sqlite")
    assert_type(swept, kb.SweepResult)
    assert_type(kb.read_sweep(folder / "results.sqlite"), kb.SweepResult)
    checked = kb.validate("tensor")
    assert_type(checked, kb.Validation)
    return [repr(one) for one in (compared, tried, model, probed, swept, checked)]


def step_by_step() -> EntryTimes:
    program = kb.Program("one product")
    job = program.te_gemm(
        m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1, wgt_offset=0, ofm_bank=2,
        ofm_offset=0,
    )  # fmt: skip
    assert_type(job, int)
    kb.check_program(program, "npu_mobile")
    machine = kb.Machine("npu_mobile", program)
    assert_type(machine.run(until=f"start:{job}"), bool)
    assert_type(machine.cycle, int)
    result = kb.simulate(program, kb.load_config("npu_mobile", {"te.engines": 1}, kind=kb.NpuConfig))
    assert_type(result, kb.Result)
    return result.entry(job)


class Latency(kb.Component, kind="latency"):
    """A tensor engine with a fixed latency."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        """Parameters."""

        latency: int = 4  #: [cycle]

    job = -1

    def accept(self, job: Job, now: int) -> int:
        """Start a job."""
        self.job = job.id
        return now + int(self.spec.latency)

    def step(self, now: int) -> int:
        """Complete the job."""
        if self.job >= 0:
            self.complete(self.job)
        self.job = -1
        return kb.NEVER


class Waiting(Process):
    """The same as a generator."""

    def run(self, env: Environment, msg: Job) -> Waits:
        """Wait for ten cycles."""
        yield env.timeout(10)


class FirstOnly(kb.Arbiter):
    """Grants everything to the first request."""

    def arbitrate(self, scratchpad: Scratchpad, now: int, requests: Sequence[BankRequest]) -> list[int]:
        """Masks of granted banks."""
        return [requests[0].reads | requests[0].writes, *([0] * (len(requests) - 1))]


class Switch(kb.PassivePart):
    """A slow switch."""

    def cycles(self, passage: kb.Passage) -> int:
        """[cycle] of latency."""
        return 20 if passage.what == "memory" else 0


@kb.bench(name="scale", description="twice its input", params={"n": 64})
def scale(ctx: kb.Context) -> None:
    """Host program of a bench."""
    x = ctx.from_numpy(np.arange(ctx.params["n"], dtype=np.float32), name="x", placement=kb.DPPolicy(pe="row_wise"))
    assert_type(x, DeviceTensor)
    ctx.output("x", x)


def launched() -> Fraction:
    assert_type(scale, kb.Bench)
    engine = kb.GraphEngine("single_cube")
    timing = engine.run(scale, n=128)
    assert_type(timing, TimingResult)
    if engine.op_log is not None:
        kb.DataExecutor(engine.op_log).run()
    return Fraction(timing.cycles, len(preset_names()))


def test_speed(kbsim: Kbsim) -> None:
    run = kbsim.run("gemm")
    assert_cycles(run, at_most=10_000)
    try:
        kb.load_config("nothing")
    except kb.InputError as error:
        print(error.problems[0].rule, error.exit_code)
