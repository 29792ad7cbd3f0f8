"""`kbsim probe` against closed forms: latency of the way, and bytes over what limits them."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import ceil

import pytest

from kernbench import Machine, Program
from kernbench.analysis.probe import SIZES as PROBE_SIZES
from kernbench.analysis.probe import ProbeRow, patterns, probe, probe_names, probe_sizes
from kernbench.common.errors import InputError
from kernbench.common.units import parse_rational
from kernbench.config import SystemConfig, load_config
from kernbench.policy.routing import PathRouter
from kernbench.sim_engine.recording import TraceOptions
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import Edge
from tests.property.test_trace import Lines
from tests.trace_systems import named, parsed

SIZES = (4096, 65536)
PRESETS = ("single_cube", "two_sips", "sip_4x4", "pod_8sip")
LOADS = {"own_hbm": (0, 0, 0), "own_hbm_store": (0, 0, 0), "neighbour_hbm": (0, 0, 1), "across_ucie": (0, 1, 0),
         "across_sips": (1, 0, 0)}  # fmt: skip
FIRST = "sip0.cube0.pe0.pe_dma"


def rows_of(name: str, only: tuple[str, ...] = ()) -> list[ProbeRow]:
    return list(probe(load_config(name), SIZES, only))


class Forms:
    """What a pattern alone takes, from routes and numbers of the system alone."""

    def __init__(self, config: SystemConfig) -> None:
        self.config = config
        self.router = PathRouter(build_topology(config))
        hbm = config.cube.hbm
        bus = Fraction(hbm.bus_width_bytes, hbm.dram_burst_cycles)
        self.slice_rate = config.slice_channels * min(hbm.peak_bw_bytes_per_cycle, bus)

    def memory(self, node: str, place: tuple[int, int, int], read: bool) -> tuple[Edge, ...]:
        address = self.router.resolver.address(*place)
        return self.router.route(self.router.find_memory_path(node, address, read=read)).edges

    def farthest(self) -> tuple[int, int, int]:
        """The slice of the first cube whose data are longest on their way to the first PE."""
        ways = {k: sum(edge.cycles for edge in self.memory(FIRST, (0, 0, k), True)) for k in range(self.config.slices)}
        return 0, 0, min(k for k, cycles in ways.items() if cycles == max(ways.values()))

    def of(self, pattern: str, size: int) -> tuple[int, int, int]:
        """(setup, links, transfer): set-up of memory and endpoint, latencies of the edges, bytes over the narrowest."""
        setup, rates = self.config.cube.hbm.t_setup_cycles, [self.slice_rate]
        if pattern == "pe_to_pe":
            setup, rates = 0, []
            edges = self.router.route(self.router.find_path(FIRST, "sip0.cube0.pe1.pe_dma")).edges
        elif pattern in ("host_to_device", "device_to_host"):
            write, endpoint = pattern == "host_to_device", "sip0.io0.pcie_ep"
            outside = self.router.route(("host", endpoint) if write else (endpoint, "host")).edges
            edges = (*outside, *self.memory(endpoint, (0, 0, 0), not write))
            setup += self.config.io.pcie.setup_cycles
        else:
            place = self.farthest() if pattern == "across_mesh" else LOADS[pattern]
            edges = self.memory(FIRST, place, pattern != "own_hbm_store")
        rates += [edge.bytes_per_cycle for edge in edges if edge.bytes_per_cycle is not None]
        return setup, sum(edge.cycles for edge in edges), ceil(Fraction(size) / min(rates))


@pytest.mark.parametrize("name", PRESETS)
def test_a_pattern_alone_takes_setup_links_and_bytes_over_the_narrowest(name: str) -> None:
    """To the cycle, every pattern of one transfer, 4 KiB to 1 MiB. Its flows are alike, so they end together."""
    config, sizes = load_config(name), PROBE_SIZES if name != "pod_8sip" else (PROBE_SIZES[0], PROBE_SIZES[-1])
    forms, alone = Forms(config), [one.name for one in patterns(config) if not one.name.startswith("all_")]
    rows = list(probe(config, sizes, alone))
    assert [(row.setup, row.links, row.transfer) for row in rows] == [forms.of(row.pattern, row.bytes) for row in rows]
    assert all(row.cycles == row.setup + row.links + row.transfer and row.transfers == 1 for row in rows)
    assert {row.pattern for row in rows} == set(alone) and {row.bytes for row in rows} == set(sizes)


def test_the_patterns_are_those_that_users_ask_first() -> None:
    """Host and own HBM both ways, a neighbour's, over mesh, UCIe and SIPs, all at once."""
    assert [one.name for one in patterns(load_config("pod_8sip"))] == [
        "host_to_device", "device_to_host", "own_hbm", "own_hbm_store", "neighbour_hbm", "across_mesh", "pe_to_pe",
        "across_ucie", "across_sips", "all_own_hbm", "all_one_slice"]  # fmt: skip


@pytest.mark.parametrize("pattern", ["all_own_hbm", "all_one_slice"])
@pytest.mark.parametrize("name", ["two_sips", "sip_4x4"])
def test_with_all_pes_at_once_no_resource_passes_its_capacity(name: str, pattern: str) -> None:
    """docs/model/sharing.md: a resource moves its capacity and what its members bring as carry, under a line each; and all of
    its capacity in windows in which the same members share it throughout."""
    config = load_config(name)
    program = Program(pattern)
    next(one for one in patterns(config) if one.name == pattern).moves(program, 65536)
    machine, lines = Machine(config, program), Lines()
    tracing = machine.trace(lines, TraceOptions("full", 16))
    machine.run()
    tracing.close()
    events = parsed(lines.all())
    capacity = {unit["unit"]: parse_rational(unit["capacity"]) for unit in events[0]["units"] if "capacity" in unit}
    line = config.pe.spm.bank_width_bytes
    starts = named(events, "DRAM_TX_START", "NOC_TX_START")
    flows = Counter(event["unit"] for event in starts)
    began = max(event["t_cycle"] for event in starts)
    over = min(event["t_cycle"] for event in named(events, "DRAM_TX_END"))
    bottleneck = max(flows, key=lambda unit: (flows[unit] / capacity[unit], unit.endswith("ch0")))
    whole = 0
    for sample in named(events, "BANDWIDTH_SAMPLE"):
        unit, moved = sample["unit"], sample["read_bytes"] + sample["write_bytes"]
        assert moved <= capacity[unit] * sample["busy_cycles"] + flows[unit] * line
        if unit == bottleneck and began <= sample["t_cycle"] + 1 - sample["window_cycles"] and sample["t_cycle"] < over:
            whole += 1
            assert moved >= capacity[unit] * sample["window_cycles"] - flows[unit] * line
    assert whole > 10


def test_all_at_once_use_all_of_a_shared_bottleneck_and_no_more() -> None:
    for row in rows_of("single_cube", ("all_own_hbm", "all_one_slice")):
        assert row.transfers == 8
        assert row.utilisation <= 1
        assert row.bandwidth * row.transfer >= row.bytes
        if row.pattern == "all_own_hbm":
            assert row.utilisation == 1  # nobody shares: every channel runs at its rate
        else:  # all eight pass one slice; only while the last ones are in flight is less than all of it used
            assert row.utilisation > Fraction(99, 100)


def test_a_size_that_does_not_fit_is_left_out() -> None:
    config = load_config("single_cube", {"pe.spm.bank_size_bytes": "4 KiB"})
    assert {row.bytes for row in probe(config, only=("own_hbm",))} == {4096, 16384, 65536}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("4KiB,x", 'probe: sizes = "x", but it must be a whole number of bytes or a size like "64 KiB"'),
        ("0", 'probe: sizes = "0", but it must be from 1 byte to below 1 TiB'),
        ("3 parsecs", 'probe: sizes = "3 parsecs", but the unit parsecs is not one of B, KiB, MiB, GiB, TiB'),
    ],
)
def test_sizes_are_refused_with_a_reason(text: str, line: str) -> None:
    with pytest.raises(InputError) as refused:
        probe_sizes(text)
    assert str(refused.value).startswith(line[:60])
    assert probe_sizes("4KiB, 1 MiB,100") == [4096, 1 << 20, 100]
    assert probe_sizes("4K,1M, 2 k,4kB") == [4096, 1 << 20, 2048, 4000]  # letters as those of `kbsim ccl run -b`


def test_an_unknown_pattern_is_refused() -> None:
    with pytest.raises(InputError, match=r"single_cube\.yaml has no such pattern; it has host_to_device"):
        probe_names(load_config("single_cube"), "own_hbm,sideways")


def test_slices_that_begin_between_two_multiples_of_the_alignment_are_used_from_the_next_one_on() -> None:
    """Slices of 2 GiB, and transfers that are aligned to 96 bytes."""
    config = load_config("single_cube", ["pe.dma.alignment_bytes=96"], kind=SystemConfig)
    (row,) = probe(config, [4096], only=["neighbour_hbm"])
    assert row.bytes == 4096 and row.transfers == 1
