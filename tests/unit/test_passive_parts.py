"""Passive parts: classes of a user in the place of routers, memories, ports, processors and scratchpads, by hand to the cycle.

On `single_cube` a load of 4 KiB by PE 0 from its own slice takes 163 cycles: 120 set-up of the HBM, 1 to the router and 2
in it, and 40 for 2,048 bytes on each of two channels of 51.2 B/cycle. A send to the next PE takes 5 cycles of edges and 32
for 4,096 bytes at 128. A launch takes 411: 152 of PCIe, 3 + 3 in the chiplet, 3 to the M_CPU; 100 each in endpoint and IO CPU,
50 in the M_CPU. A copy by the host takes 453.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kernbench import InputError, Machine, Program, load_config
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain

PARTS = '''
from dataclasses import dataclass
from fractions import Fraction

from kernbench import MemoryPart, PassivePart
from kernbench.components.builtin.hbm_ctrl import HbmCtrl


class Slow(PassivePart):
    """It costs `cycles`, and `longer` in addition where the way begins or ends in it."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        cycles: int = 10
        longer: int = 0

    def cycles(self, passage):
        return self.spec.cycles + (self.spec.longer if passage.before is None or passage.after is None else 0)


class Launches(PassivePart):
    """A processor that costs launches alone."""

    def cycles(self, passage):
        return 7 if passage.what == "launch" else 1000


class Narrow(PassivePart):
    """What leaves it has half of its bandwidth."""

    def bytes_per_cycle(self, edge):
        return edge.bytes_per_cycle / 2 if edge.source == self.node else edge.bytes_per_cycle


class Behind(PassivePart):
    """What enters it has half of what the part before it said."""

    def bytes_per_cycle(self, edge):
        return edge.bytes_per_cycle / 2 if edge.target == self.node else edge.bytes_per_cycle


class Narrow64(HbmCtrl):
    """What leaves it has 64 B/cycle."""

    def bytes_per_cycle(self, edge):
        return Fraction(64) if edge.source == self.node else edge.bytes_per_cycle


class Hbm(HbmCtrl):
    """Half the bandwidth, hardly a set-up."""

    def setup_cycles(self):
        return 7

    def channel_bytes_per_cycle(self):
        return super().channel_bytes_per_cycle() / 2


class BusySram(MemoryPart):
    """It takes its time."""

    def setup_cycles(self):
        return 30


class Wrong(PassivePart):
    def cycles(self, passage):
        return -1


class Thin(PassivePart):
    def bytes_per_cycle(self, edge):
        return 0
'''


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passive_parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "passive_parts", raising=False)  # that of another test is in another directory


def load(**where: Any) -> Program:
    program = Program("load")
    program.dma_load(**{"node": "sip0.cube0.pe0", "tensor_role": "weight", "qbits": 8, "num_elements": 4096, "dram_addr": 0,
                        "spm_bank": 0, "spm_offset": 0, **where})  # fmt: skip
    return program


def send() -> Program:
    program = Program("send")
    program.dma_send(node="sip0.cube0.pe0", peer="sip0.cube0.pe1", tensor_role="activation", qbits=8, num_elements=4096,
                     spm_bank=0, spm_offset=0, peer_bank=0, peer_offset=0)  # fmt: skip
    return program


def host_copy() -> Program:
    program = Program("copy")
    program.host_copy(direction="to_device", qbits=8, dram_addr=0, num_elements=4096)
    return program


def launch() -> Program:
    program = Program("launch")
    program.launch(node="sip0.cube0.m_cpu")
    return program


SRAM = 16 * 2**30  #: address of the first cube's
# Of each program: what it takes as it is, then with one kind of part replaced by a class with some keys.
TIMES = [
    (load(), {}, 163),
    (load(), {"router": "Slow"}, 163 + 10),  # one router on the way
    (load(), {"router": "Slow cycles=3 longer=50"}, 163 + 3),
    (load(), {"hbm_ctrl": "Hbm"}, 7 + 3 + 2048 * 2 * 10 // 512),  # 25.6 B/cycle and channel: 80 cycles
    (load(), {"pe_tcm": "Slow longer=1"}, 163 + 10 + 1),  # the way ends in the scratchpad
    (load(), {"ucie": "Slow", "io_noc": "Slow", "sram": "BusySram", "m_cpu": "Slow"}, 163),  # none is on it
    (load(), {"router": "Narrow"}, 123 + 64),  # from the router to the PE 64 B/cycle, less than the two channels
    (load(), {"hbm_ctrl": "Narrow64"}, 123 + 64),  # likewise from the stack to the router
    (load(), {"router": "Behind"}, 123 + 64),  # the same edge, but the part that it enters says so
    (load(), {"hbm_ctrl": "Narrow64", "router": "Behind"}, 123 + 128),  # both: first the one that it leaves
    # Head latency 16: 8 in the SRAM and 2 in its router, 5 mm of mesh twice. Then 4,096 bytes at 128.
    (load(dram_addr=SRAM), {}, 16 + 32),
    (load(dram_addr=SRAM), {"sram": "BusySram"}, 16 + 32 + 30),
    (send(), {}, 37),
    (send(), {"pe_tcm": "Slow"}, 37 + 2 * 10),  # at both ends
    (send(), {"router": "Slow"}, 37 + 2 * 10),
    (launch(), {}, 411),
    (launch(), {"m_cpu": "Launches"}, 411 - 50 + 7),
    (launch(), {"io_cpu": "Launches", "pcie_ep": "Slow"}, 411 - 100 + 7 - 100 + 10),
    (launch(), {"io_noc": "Slow", "router": "Slow"}, 411 + 10),  # commands go by their own edges, not through routers
    (host_copy(), {"pcie_ep": "Slow cycles=0"}, 453 - 100),
    (host_copy(), {"io_noc": "Slow", "ucie": "Slow cycles=1"}, 453 + 10 + 1),
    (host_copy(), {"io_cpu": "Launches", "m_cpu": "Launches"}, 453),
]


def config_with(parts: dict[str, str]) -> Any:
    overrides = []
    for kind, text in parts.items():
        name, *keys = text.split()
        overrides += [f"components.{kind}.impl=passive_parts:{name}", *(f"components.{kind}.{key}" for key in keys)]
    return load_config("single_cube", overrides, allow_code="passive_parts.py")


def cycles_of(program: Program, parts: dict[str, str]) -> int:
    machine = Machine(config_with(parts), program)
    machine.run()
    result = machine.result()
    assert machine.bounds.cycles <= result.cycles
    return result.cycles


@pytest.mark.parametrize(("program", "parts", "cycles"), TIMES)
def test_a_part_costs_what_its_class_says(program: Program, parts: dict[str, str], cycles: int) -> None:
    assert cycles_of(program, parts) == cycles


def test_counters_but_for_times_stay() -> None:
    """Timing changes, and only timing: the same bytes go over the same channels, links and banks."""
    found = []
    for parts in ({}, {"router": "Slow", "hbm_ctrl": "Hbm", "pe_tcm": "Slow"}):
        machine = Machine(config_with(parts), load())
        machine.run()
        found.append(machine.result().counters)
    plain, replaced = found
    assert list(plain) == list(replaced)
    for name, counters in plain.items():
        for key in ("bytes", "jobs", "requests", "grants"):
            assert counters.get(key) == replaced[name].get(key)


def test_traces_name_the_cycles_of_parts_head_latency(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    machine = Machine(config_with({"router": "Slow"}), load())
    with file.open("wb") as sink:
        tracing = machine.trace(sink, TraceOptions("full"))
        machine.run()
        tracing.close()
    assert validate(open_trace(file)).valid
    spans = explain(open_trace(file)).story(0).spans
    assert [(s.start, s.end, s.parts[0].cause) for s in spans] == [(0, 133, "head"), (133, 173, "transfer")]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"router": "Wrong"}, "sip0.cube0.r0c0: cycles = -1, but it must be an integer from 0 to below 2^31"),
        ({"router": "Thin"}, "sip0.cube0.r0c0: bytes_per_cycle = 0, but it must be an integer or Fraction above 0"),
        ({"pe_tcm": "Slow nothing=1"}, "passive_parts:Slow does not take these parameters"),
        ({"pe_dma": "Slow"}, "it is not a component: it has no step or no Spec; derive it from kernbench.Component"),
    ],
)
def test_wrong_parts_are_refused(parts: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        cycles_of(load(), parts)
    assert message in str(error.value)
