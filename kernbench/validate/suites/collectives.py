"""Collectives between PEs over their queues: cycles compared with a derivation, and times of an all_reduce compared with
measurements over NVLink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import cast

from kernbench.ccl.call import Call, Queues, run_call
from kernbench.ccl.collectives import COLLECTIVES, Collective
from kernbench.ccl.contract import LONG_SLOT, Algorithm, Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.registry import read_registry
from kernbench.common import naming
from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.config import SystemConfig, load_config
from kernbench.policy.routing.router import PathRouter
from kernbench.topology.builder import build_topology
from kernbench.validate import channels, interleaved_messages
from kernbench.validate.page import size_text
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, Series, SuiteData

FITTED_WHY = "fitted: three constants for three sizes, up to what a cycle and four digits resolve"
SHAPE_WHY = "not fitted: one latency, one bandwidth and one time to add represent all protocols of a library"
TURNS_WHY = "derived from turns, latency and link alone; loads, stores and commands are one figure each"
TURNS_ALLOWED = Fraction(2, 100)
TENTH, HUNDREDTH = Fraction(1, 10), Fraction(1, 100)
FAST = 1 << 20  #: elements that a vector engine adds in a cycle, so that each addition takes one cycle
DTYPE, ITEM = "f16", 2
SLOTS, SLOT_BYTES = 16, LONG_SLOT  #: in which all messages of a segment have space, for the comparison with the derivation
#: How often a segment of n ranks travels around the ring except for its last hop, and the number of directions in which
#: segments travel.
FORMS = {("all_reduce", "ring"): (2, 1), ("all_reduce", "bidirectional"): (2, 2), ("reduce_scatter", "ring"): (1, 1),
         ("all_gather", "ring"): (1, 1)}  # fmt: skip


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Cycles of several collectives, then times for the measured sizes."""
    ranks = [int(n) for n in data.fact("turns_ranks")]
    for name in FORMS:
        for n in ranks[: len(ranks) - 1] if runner.options.quick else ranks:
            yield from (_in_turn(data, runner, name, n, int(size)) for size in data.fact("turns_sizes"))
    cases = [case for case in data.cases if case.get("quick", False) or not runner.options.quick]
    line = Line(data, runner)
    for case in cases:
        fitted = bool(case.get("fitted", False))
        yield Row(
            case=f"4 A100, {size_text(int(case['bytes']))}",
            source="llmcompass",
            expected=Fraction(case["us"]),
            ours=line.us(int(case["bytes"])),
            unit="us",
            allowed=HUNDREDTH if fitted else TENTH,
            why=FITTED_WHY if fitted else SHAPE_WHY,
        )


def _in_turn(data: SuiteData, runner: Runner, name: tuple[str, str], ranks: int, nbytes: int) -> Row:
    config = _machine(data, {"system.sips": ranks, "pe.ve.ops_per_lane": FAST, **data.fact("turns_machine")})
    entry = read_registry().find(*name)
    collective = COLLECTIVES[entry.collective]
    count = collective.count_of(nbytes, ranks, ITEM)
    return Row(
        case=f"{entry.collective} {entry.name}, {ranks} ranks, {size_text(nbytes)}",
        source="turns",
        expected=_expected(data, config, name, ranks, nbytes),
        ours=_cycles(_slowed(config, runner), entry.load(), count, collective, Queues(SLOTS, SLOT_BYTES)),
        unit="cycles",
        allowed=TURNS_ALLOWED,
        why=TURNS_WHY,
    )


def _expected(data: SuiteData, config: SystemConfig, name: tuple[str, str], ranks: int, nbytes: int) -> Fraction:
    """[cycle] The expected time by derivation."""
    rounds, directions = FORMS[name]
    segment = Fraction(nbytes, ranks * directions)
    lanes = max(1, min(int(data.fact("turns_lanes")), int(segment // data.fact("turns_least_bytes"))))
    sharing = directions if ranks == 2 else 1  # with two ranks, both directions use the only link to the other rank
    piece = segment / lanes * sharing / config.system.link.bytes_per_cycle
    load = segment / lanes * directions / (config.pe.spm.num_banks * config.pe.spm.bank_width_bytes)
    overhead, ends = int(data.fact("turns_overhead")), int(data.fact("turns_ends"))
    return interleaved_messages.taken(lanes, rounds * (ranks - 1), _latency(config), piece, load, overhead) + ends


def _machine(data: SuiteData, changed: Mapping[str, object]) -> SystemConfig:
    return load_config(data.fact("machine"), {name: str(value) for name, value in changed.items()}, kind=SystemConfig)


def _latency(config: SystemConfig) -> int:
    """[cycle] The latency from the PE of one SIP to the PE of the next SIP."""
    router = PathRouter(build_topology(config))
    source, target = (naming.place(sip, cube=0, pe=0) for sip in (0, 1))
    return router.route(router.find_path(f"{source}.{naming.PE_DMA}", f"{target}.{naming.PE_TCM}")).cycles


def _slowed(config: SystemConfig, runner: Runner) -> SystemConfig:
    """The machine with planted errors of its links and their latencies, its vector engines, and its memory."""
    noc, ve, dram = (Fraction(runner.plant.get(name, 1)) for name in ("noc", "ve", "dram"))
    system, cube, pe = config.system, config.cube, config.pe
    link = system.link.model_copy(
        update={"bytes_per_cycle": system.link.bytes_per_cycle / noc, "cycles": ceil_div(system.link.cycles * noc, 1)}
    )
    hbm = cube.hbm.model_copy(update={"peak_bw_bytes_per_cycle": cube.hbm.peak_bw_bytes_per_cycle / dram})
    return config.model_copy(
        update={
            "system": system.model_copy(update={"link": link}),
            "cube": cube.model_copy(update={"hbm": hbm}),
            "pe": pe.model_copy(update={"ve": pe.ve.model_copy(update={"ops_per_lane": pe.ve.ops_per_lane / ve})}),
        }
    )


def _cycles(config: SystemConfig, algorithm: Algorithm, count: int, collective: Collective, queues: Queues) -> int:
    """The time of a collective over all SIPs. InternalError if it does not end."""
    group = group_of(config, Shape(config.system.sips, 1, 1))
    assert queues.slot_bytes is not None
    call = Call("validation", algorithm, group, count, DTYPE, queues.slot_bytes)
    outcome = run_call(config, call, collective, queues, check=False)
    if outcome.status != "done":
        raise InternalError(f"validation: a collective of {count} elements ends {outcome.status}")
    return outcome.cycles


class Line:
    """Times by size: simulated, and of those above the largest simulated one what the link needs for the bytes more."""

    def __init__(self, data: SuiteData, runner: Runner) -> None:
        self.config = _slowed(_machine(data, {}), runner)
        self.most = int(data.fact("simulated"))
        self.known: dict[int, Fraction] = {}

    def us(self, nbytes: int) -> Fraction:
        """[us] The time of an all_reduce."""
        ranks, link = self.config.system.sips, self.config.system.link
        beyond = Fraction(2 * (ranks - 1), ranks) * max(0, nbytes - self.most) / link.bytes_per_cycle
        return self._simulated(min(nbytes, self.most)) + beyond / self.config.freq_ghz / 1000

    def _simulated(self, nbytes: int) -> Fraction:
        if nbytes not in self.known:
            count, queues = nbytes // ITEM, Queues(channels.SLOTS, channels.SLOT_BYTES)
            cycles = _cycles(self.config, cast(Algorithm, channels), count, COLLECTIVES["all_reduce"], queues)
            self.known[nbytes] = Fraction(cycles) / self.config.freq_ghz / 1000
        return self.known[nbytes]


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """Measured and simulated time by size."""
    by_case = {f"4 A100, {size_text(int(case['bytes']))}": float(case["bytes"]) for case in data.cases}
    timed = [(by_case[row.case], row) for row in rows if row.source == "llmcompass"]
    theirs = [(x, float(row.expected)) for x, row in timed if not isinstance(row.expected, tuple)]
    ours = [(x, float(row.ours)) for x, row in timed]
    series = [Series("simulated", ours, "line"), Series("measured", theirs)]
    return [Figure("all_reduce on four A100", "bytes", "us", series, log_x=True, log_y=True)]
