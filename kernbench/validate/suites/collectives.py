"""Collectives between PEs, over their queues: close to closed forms, and with the shape of an all_reduce over NVLink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

from kernbench.ccl.call import Call, Queues
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Algorithm, Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.registry import read_registry
from kernbench.ccl.single import run_call
from kernbench.common import naming
from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.config import SystemConfig, load_config
from kernbench.policy.routing.router import PathRouter
from kernbench.topology.builder import build_topology
from kernbench.validate import channels
from kernbench.validate.forms import size_text
from kernbench.validate.stand import Stand
from kernbench.validate.suite import Figure, Row, Series, SuiteData

FITTED_WHY = "fitted: three constants for three sizes, up to what a cycle and four digits resolve"
SHAPE_WHY = "not fitted: one latency, one bandwidth and one time to add stand for all the protocols of a library"
TENTH, HUNDREDTH = Fraction(1, 10), Fraction(1, 100)
FAST = 1 << 20  #: elements a cycle: an addition takes one
DTYPE, ITEM = "f16", 2
SLOTS, SLOT_BYTES = 16, 1 << 19  #: of queues where bounds are looked at: all pieces of a chunk have room
#: Steps of n ranks, and how many bytes of those that a rank has or gets it sends over the busier direction of its link, in all.
FORMS = {
    ("all_reduce", "ring"): lambda n: (2 * (n - 1), Fraction(2 * (n - 1), n)),
    ("all_reduce", "bidirectional"): lambda n: (2 * (n - 1), Fraction(n - 1, n) * (2 if n == 2 else 1)),  # one link between two
    ("reduce_scatter", "ring"): lambda n: (n - 1, Fraction(n - 1, n)),
    ("all_gather", "ring"): lambda n: (n - 1, Fraction(n - 1, n)),
}


def rows(data: SuiteData, stand: Stand) -> Iterator[Row]:
    """Bounds of several collectives, then the sizes that were measured."""
    ranks = [int(n) for n in data.fact("bound_ranks")]
    for name in FORMS:
        for n in ranks[: len(ranks) - 1] if stand.options.quick else ranks:
            yield from (_bounded(data, stand, name, n, size) for size in data.fact("bound_sizes"))
    cases = [case for case in data.cases if case.get("quick", False) or not stand.options.quick]
    line = Line(data, stand)
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


def _bounded(data: SuiteData, stand: Stand, name: tuple[str, str], ranks: int, size: Mapping[str, Any]) -> Row:
    nbytes = int(size["bytes"])
    config = _machine(data, {"system.sips": ranks, "pe.ve.ops_per_lane": FAST, **data.fact("bound_machine")})
    steps, share = FORMS[name](ranks)
    latency, rate = _latency(config), config.system.link.bytes_per_cycle
    moving = share * nbytes / rate
    piece = Fraction(nbytes, ranks * data.fact("bound_pieces")) / rate
    entry = read_registry().find(*name)
    collective = COLLECTIVES[entry.collective]
    count = collective.count_of(nbytes, ranks, ITEM)
    sizes = collective.has(count, ranks), collective.gets(count, ranks)
    return Row(
        case=f"{entry.collective} {entry.name}, {ranks} ranks, {size_text(nbytes)}",
        source="bound",
        expected=(max(moving + latency, steps * (latency + piece)), moving + steps * (latency + data.fact("bound_overhead"))),
        ours=_cycles(_slowed(config, stand), entry.load(), count, sizes, Queues(SLOTS, SLOT_BYTES)),
        unit="cycles",
        allowed=Fraction(str(size["allowed"])),
        why=str(size["why"]),
    )


def _machine(data: SuiteData, changed: Mapping[str, object]) -> SystemConfig:
    return load_config(data.fact("machine"), {name: str(value) for name, value in changed.items()}, kind=SystemConfig)


def _latency(config: SystemConfig) -> int:
    """[cycle] from one SIP's PE to the next one's."""
    router = PathRouter(build_topology(config))
    source, target = (naming.place(sip, cube=0, pe=0) for sip in (0, 1))
    return router.route(router.find_path(f"{source}.{naming.PE_DMA}", f"{target}.{naming.PE_TCM}")).cycles


def _slowed(config: SystemConfig, stand: Stand) -> SystemConfig:
    """The machine with what is planted: its links and their latencies, its vector engines, its memory."""
    noc, ve, dram = (Fraction(stand.plant.get(name, 1)) for name in ("noc", "ve", "dram"))
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


def _cycles(config: SystemConfig, algorithm: Algorithm, count: int, sizes: tuple[int, int], queues: Queues) -> int:
    """Of a collective over all SIPs; InternalError where it does not end."""
    group = group_of(config, Shape(config.system.sips, 1, 1))
    assert queues.slot_bytes is not None
    call = Call("validation", algorithm, group, count, DTYPE, queues.slot_bytes)
    outcome = run_call(config, call, sizes, queues, check=False)
    if outcome.status != "done":
        raise InternalError(f"validation: a collective of {count} elements ends {outcome.status}")
    return outcome.cycles


class Line:
    """Times by size: simulated, and of those above the largest simulated one what the link needs for the bytes more."""

    def __init__(self, data: SuiteData, stand: Stand) -> None:
        self.config = _slowed(_machine(data, {}), stand)
        self.most = int(data.fact("simulated"))
        self.known: dict[int, Fraction] = {}

    def us(self, nbytes: int) -> Fraction:
        """Microseconds of an all_reduce."""
        ranks, link = self.config.system.sips, self.config.system.link
        beyond = Fraction(2 * (ranks - 1), ranks) * max(0, nbytes - self.most) / link.bytes_per_cycle
        return self._simulated(min(nbytes, self.most)) + beyond / self.config.freq_ghz / 1000

    def _simulated(self, nbytes: int) -> Fraction:
        if nbytes not in self.known:
            count, queues = nbytes // ITEM, Queues(channels.SLOTS, channels.SLOT_BYTES)
            cycles = _cycles(self.config, cast(Algorithm, channels), count, (count, count), queues)
            self.known[nbytes] = Fraction(cycles) / self.config.freq_ghz / 1000
        return self.known[nbytes]


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """Time over size, measured and simulated."""
    by_case = {f"4 A100, {size_text(int(case['bytes']))}": float(case["bytes"]) for case in data.cases}
    timed = [(by_case[row.case], row) for row in rows if row.source == "llmcompass"]
    theirs = [(x, float(row.expected)) for x, row in timed if not isinstance(row.expected, tuple)]
    ours = [(x, float(row.ours)) for x, row in timed]
    series = [Series("simulated", ours, "line"), Series("measured", theirs)]
    return [Figure("all_reduce on four A100", "bytes", "us", series, log_x=True, log_y=True)]
