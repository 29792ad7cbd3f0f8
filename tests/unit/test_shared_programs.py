"""Points of a sweep share plans, programs and runs of segments; each point must get what it gets alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kernbench.cmdq.lower import lower_program
from kernbench.cmdq.shared_plans import NOT_READ
from kernbench.config import load_config
from kernbench.config.schema import NpuConfig
from kernbench.sweep.targets.llm import SIMULATED
from kernbench.workloads.llm import steps
from kernbench.workloads.llm.params import llm_programs
from kernbench.workloads.llm.steps import LlmPrograms
from tests.shared_results import forget_results, small_target

#: Each differs from the first in one thing that some of the shared content must name.
CHANGES: tuple[dict[str, Any], ...] = (
    {}, {"dram.peak_bw_bytes_per_cycle": 31}, {"dram.t_setup_cycles": 9}, {"dram.t_setup_cycles": 700},
    {"dram.bus_width_bytes": 16, "dram.dram_burst_cycles": 3}, {"dram.peak_bw_bytes_per_cycle": 1000}, {"dram.period": 2},
    {"spm.bank_size_bytes": 1 << 18}, {"spm.bank_size_bytes": 1 << 16},
    {"spm.map": "blocked"}, {"spm.map": "blocked", "spm.bank_size_bytes": 1 << 18}, {"spm.read_ports": 1},
    {"te.macs_per_cycle": 512}, {"te.engines": 1}, {"dma.engines": 2}, {"dma.alignment_bytes": 128}, {"freq_ghz": 2},
    {"allocation": "max_min_v1"}, {"dram.interleave_bytes": 512}, {"energy.dram_pj_per_byte": 5}, {"ve.lanes": 16},
    {"control.issue_width": 1},
)  # fmt: skip


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    forget_results()
    yield
    forget_results()


@pytest.mark.parametrize("model", ["window", pytest.param("experts", marks=pytest.mark.nightly)])
def test_points_get_together_what_they_get_alone(model: str) -> None:
    target = small_target(model)
    together = [target.simulate(load_config("npu_mobile", change), {}) for change in CHANGES]
    assert SIMULATED.found
    alone = []
    for change in CHANGES:
        forget_results()
        alone.append(target.simulate(load_config("npu_mobile", change), {}))
    assert together == alone
    assert len({row["jobs_hash"] for row in alone}) > len(CHANGES) // 2  # most of the changes do count


def test_bandwidths_above_that_of_the_bus_run_once() -> None:
    target, bus = small_target(), {"dram.bus_width_bytes": 64, "dram.dram_burst_cycles": 2}
    rows, simulated, planned = [], [], []
    for peak in (31, 32, 33, 500):
        rows.append(target.simulate(load_config("npu_mobile", bus | {"dram.peak_bw_bytes_per_cycle": peak}), {}))
        simulated.append(len(SIMULATED))
        planned.append(len(steps.PLANS))
    assert rows[0] != rows[1] == rows[2] == rows[3]
    assert simulated[0] < simulated[1] == simulated[3] and planned[0] < planned[1] == planned[3]


def test_larger_banks_with_the_same_plan_run_once() -> None:
    target = small_target()
    sizes = (1 << 17, 1 << 18)
    results, runs = [], []
    for size in sizes:
        results.append(target.simulate(load_config("npu_mobile", {"spm.bank_size_bytes": size}), {}))
        runs.append((len(SIMULATED), SIMULATED.found))
    assert results[0] == results[1]
    (first, found), (both, found_of_both) = runs
    assert both == first and found_of_both == found + first + found  # each segment of the second machine was found


class _Refusing:
    """A section that must not be asked for some of its values."""

    def __init__(self, section: Any, names: tuple[str, ...]) -> None:
        self._section, self._names = section, names

    def __getattr__(self, name: str) -> Any:
        assert name not in self._names, f"a shared program depends on {name}, and its key does not have it"
        return getattr(self._section, name)


@pytest.mark.parametrize("kind", ["embedding", "layer"])
def test_programs_read_nothing_that_their_key_lacks(kind: str) -> None:
    programs = llm_programs(small_target().model, load_config("npu_mobile"), small_target().checked({}))
    assert isinstance(programs, LlmPrograms)
    segment = next(one for one in programs.segments(programs.steps[0]) if one.kind == kind)
    program = programs.segment_program(segment)  # plans are made and addresses given
    machine: NpuConfig = programs.machine
    dram = _Refusing(machine.dram, (*NOT_READ, "capacity"))
    programs.machine = machine.model_copy(update={"dram": dram})
    lower_program(program, programs.machine)
    if kind == "layer":  # the layer's plan names its places in the scratchpad; the ends look for places again
        spm = _Refusing(machine.spm, ("bank_size_bytes", "size_bytes"))
        programs.machine = programs.machine.model_copy(update={"spm": spm})
    assert programs.segment_program(segment).entries == program.entries
