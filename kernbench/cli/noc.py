"""`kbsim noc`: recorded traffic of real chips on the simulated network, and synthetic traffic on networks of routers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kernbench.cli import output, widgets
from kernbench.cli.commands import Section
from kernbench.cli.options import Json, Quiet
from kernbench.cli.text import Justify, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.noc.load import LoadPoint
    from kernbench.analysis.noc.outcome import Outcome
    from kernbench.noc.network import MeshSpec
    from kernbench.noc.traffic import Traffic


N = TypeVar("N", int, float)

app = Section("Replay recorded traffic of a chip's network, or simulate synthetic load on a network of routers.")


class IssueMode(StrEnum):
    """When transfers are issued."""

    RECORDED = "recorded"
    CLOSED = "closed"
    BOTH = "both"


Traces = Annotated[
    list[str],
    typer.Argument(metavar="TRACE...", help="Traces (.json), or folders with traces.", show_default=False),
]


@app.callback()
def noc() -> None:
    """Replay recorded traffic of a chip's network, or load a network of routers with synthetic traffic."""


@app.command()
def replay(
    traces: Traces,
    device: Annotated[
        str, typer.Option("--device", "-d", metavar="NAME|FILE", help="The chip: a preset's name, or a .yaml or .json file.")
    ] = "wormhole",
    mode: Annotated[
        IssueMode,
        typer.Option(
            "--mode",
            help="When transfers start: at their recorded times (recorded), or as soon as their barriers allow (closed).",
        ),
    ] = IssueMode.BOTH,
    slowest: Annotated[
        int, typer.Option("--slowest", metavar="N", min=0, help="Show the N transfers that waited longest.")
    ] = 5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Replay NoC traces, and compare the simulated cycles with the measured cycles of the chip."""
    from kernbench.analysis.noc.device import load_device
    from kernbench.analysis.noc.events import read_trace
    from kernbench.analysis.noc.outcome import MODES, outcome

    chip = load_device(device)
    found = [
        outcome(trace, chip, each, slowest=slowest)
        for trace in (read_trace(path, chip) for path in _files(traces))
        for each in MODES
        if mode.value in (each, "both")
    ]
    if as_json:
        output.show_json({"device": chip.name, "replays": [one.to_dict() for one in found]})
    elif not quiet:
        output.show(replay_tables(found, chip.name))
    return output.OK


def _files(paths: list[str]) -> list[Path]:
    """The trace files that are named, and for a directory its trace files, sorted by name."""
    from kernbench.common.errors import InputError, Problem

    out: list[Path] = []
    for text in paths:
        path = Path(text)
        inside = sorted(path.glob("*.json")) if os.path.isdir(path) else [path]
        if not inside:
            raise InputError(Problem(text, "the folder has no .json file"))
        out += inside
    return out


_TITLES = {"recorded": "at recorded times", "closed": "closed loop"}
_HEADERS = {"recorded": "recorded", "closed": "closed"}


def replay_tables(outcomes: Sequence[Outcome], device: str) -> Iterator[RenderableType]:
    """One row per trace, the mean error of several traces, and for a single trace the transfers that waited longest."""
    modes = list(dict.fromkeys(one.mode for one in outcomes))
    traces = list(dict.fromkeys(one.trace for one in outcomes))
    yield widgets.Text(f"{device}: cycles of each trace")
    columns: list[tuple[str, Justify]] = [("trace", "left"), ("reads, writes", "right")]
    columns += [("measured", "right")]
    for mode in modes:
        columns += [(_HEADERS[mode], "right"), ("error", "right")]
    made = table("", columns)
    for k in range(0, len(outcomes), len(modes)):
        row = outcomes[k : k + len(modes)]
        cells = [row[0].trace, f"{row[0].transfers:,}", f"{row[0].measured:,}"]
        for one in row:
            cells += [f"{one.estimated:,}", f"{one.error:+.1%}"]
        made.add_row(*cells)
    yield ""
    yield made
    if len(outcomes) > len(modes):
        yield ""
        yield from _means(outcomes, modes)
    elif len(traces) == 1:
        for one in outcomes:
            yield from _slowest(one)
    for note in dict.fromkeys(f"{one.trace}: {note}" for one in outcomes for note in one.notes):
        yield widgets.Text(f"note: {note}")


def _means(outcomes: Sequence[Outcome], modes: Sequence[str]) -> Iterator[RenderableType]:
    for mode in modes:
        errors = sorted(abs(one.error) for one in outcomes if one.mode == mode)
        middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
        said = f"mean {sum(errors) / len(errors):.2%}, median {middle:.2%}, largest {errors[-1]:.2%} of {len(errors)} traces"
        yield widgets.Text(f"error {_TITLES[mode]}: {said}")


def _slowest(one: Outcome) -> Iterator[RenderableType]:
    if not one.slowest:
        return
    columns: list[tuple[str, Justify]] = [("transfer", "left"), ("issued", "right"), ("cycles", "right"), ("waited", "right")]
    columns += [("endpoint", "right"), ("links", "right"), ("sharing", "right")]
    made = table(f"waited longest, {_TITLES[one.mode]}", columns, "cycles beyond those on an idle network")
    for slow in one.slowest:
        numbers = (slow.issued, slow.cycles, slow.delay, slow.endpoint, slow.links, slow.sharing)
        made.add_row(slow.what, *(f"{number:,}" for number in numbers))
    yield ""
    yield made


class KindOption(StrEnum):
    """The topology of a network of routers."""

    MESH = "mesh"
    TORUS = "torus"


class RoutingOption(StrEnum):
    """How packets find their way."""

    XY = "xy"
    ADAPTIVE = "adaptive"


class PatternOption(StrEnum):
    """Which node sends to which, as in BookSim2."""

    UNIFORM = "uniform"
    TRANSPOSE = "transpose"
    BITCOMP = "bitcomp"
    BITREV = "bitrev"
    SHUFFLE = "shuffle"
    TORNADO = "tornado"
    NEIGHBOR = "neighbor"
    HOTSPOT = "hotspot"


PATTERNS = f"Traffic pattern: {', '.join(PatternOption)}."


@app.command()
def load(
    pattern: Annotated[PatternOption, typer.Option("--pattern", metavar="PATTERN", help=PATTERNS)] = PatternOption.UNIFORM,
    rates: Annotated[
        str, typer.Option("--rates", metavar="R,...", help="Offered loads in flits per node and cycle, separated by commas.")
    ] = "0.1,0.2,0.3,0.4",
    saturation: Annotated[
        bool, typer.Option("--saturation", help="Find the load at which the latency is three times as high as in an idle "
            "network.")
    ] = False,
    size: Annotated[str, typer.Option("--size", metavar="COLSxROWS", help="Columns and rows of routers.")] = "8x8",
    kind: Annotated[KindOption, typer.Option("--kind", help="Topology.")] = KindOption.MESH,
    routing: Annotated[
        RoutingOption, typer.Option("--routing", help="Routing of packets: xy (first along the row) or adaptive (any "
            "shortest route).")
    ] = RoutingOption.XY,
    vcs: Annotated[int, typer.Option("--vcs", metavar="N", help="Number of virtual channels at each input of a router.")] = 8,
    depth: Annotated[int, typer.Option("--depth", metavar="FLITS", help="Buffer size of a virtual channel, in flits.")] = 8,
    flits: Annotated[int, typer.Option("--flits", metavar="N", help="Length of a packet, in flits.")] = 1,
    switch: Annotated[
        int, typer.Option("--switch", metavar="CYCLES", help="Number of cycles from the grant of a router's switch to the "
            "start of the transfer on the link.")
    ] = 1,
    link: Annotated[int, typer.Option("--link", metavar="CYCLES", help="Latency of a link, in cycles.")] = 2,
    credit: Annotated[int, typer.Option("--credit", metavar="CYCLES", help="Number of cycles from the return of a credit "
        "until the credit can be used again.")] = 2,
    hotspots: Annotated[
        str,
        typer.Option("--hotspots", metavar="NODE,...", help="Nodes that receive the packets of --pattern "
            "hotspot.", show_default="the middle"),
    ] = "",
    warmup: Annotated[
        int, typer.Option("--warmup", metavar="CYCLES", min=0, help="Cycles before the measurement starts.")
    ] = 3000,
    cycles: Annotated[
        int,
        typer.Option(
            "--cycles",
            metavar="CYCLES",
            min=1,
            help="Length of the measurement, in cycles. Only packets that are created during the measurement are counted.",
        ),
    ] = 10000,
    links: Annotated[int, typer.Option("--links", metavar="N", min=0, help="Show the N most loaded links.")] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the random traffic.")] = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Simulate synthetic traffic on a network of routers, and report latency and throughput for each offered load."""
    from dataclasses import replace

    from kernbench.analysis.noc import load as study
    from kernbench.noc.network import MeshSpec
    from kernbench.noc.traffic import Traffic

    columns, rows = _size(size)
    net = MeshSpec(
        columns=columns,
        rows=rows,
        kind=kind.value,
        routing=routing.value,
        channels=vcs,
        depth=depth,
        switch_cycles=switch,
        link_cycles=link,
        credit_cycles=credit,
    )
    window = study.Window(warmup, cycles)
    offered = _numbers(rates, float, "--rates")
    nodes = tuple(_numbers(hotspots, int, "--hotspots")) if hotspots else ()
    traffic = Traffic(pattern=pattern.value, flits=flits, seed=seed, rate=min(offered), hotspots=nodes)
    for rate in offered:
        replace(traffic, rate=rate).check(net)
    points = [study.run_load(net, replace(traffic, rate=rate), window, links=links) for rate in offered]
    idle = study.idle_latency(net, traffic)
    point = study.saturation(net, traffic, window) if saturation else None
    if as_json:
        inputs = {"network": _keys(net), "pattern": pattern.value, "flits": flits, "seed": seed, "idle_latency": idle}
        output.show_json(inputs | {"saturation": point, "loads": [one.to_dict() for one in points]})
    elif not quiet:
        output.show(load_tables(net, traffic, points, idle, point))
    return output.OK


def _keys(net: MeshSpec) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(net)


def _size(text: str) -> tuple[int, int]:
    """`8x8`. InputError for anything else."""
    from kernbench.common.errors import InputError, Problem

    columns, _, rows = text.partition("x")
    if not (columns.isdecimal() and rows.isdecimal()):
        raise InputError(Problem("kbsim noc load", "it must be COLUMNSxROWS, such as 8x8", "--size", text))
    return int(columns), int(rows)


def _numbers(text: str, kind: Callable[[str], N], option: str) -> list[N]:
    """Numbers separated by commas. InputError for anything else."""
    from kernbench.common.errors import InputError, Problem

    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        rule = "it must be numbers separated by commas"
        raise InputError(Problem("kbsim noc load", rule, option, text, f"for example {option} 0.1,0.2,0.4")) from None


def load_tables(
    net: MeshSpec, traffic: Traffic, points: Sequence[LoadPoint], idle: float, saturation: float | None
) -> Iterator[RenderableType]:
    """One row a load, the saturation point, and the most loaded links of the last load."""
    vcs = f"{net.channels} VC{'s' * (net.channels > 1)} of {net.depth} flits"
    where = f"{net.columns}x{net.rows} {net.kind}, {net.routing} routing, {vcs}"
    yield widgets.Text(f"{where}; {traffic.pattern}, packets of {traffic.flits} flit{'s' * (traffic.flits > 1)}")
    columns: list[tuple[str, Justify]] = [("offered", "right"), ("accepted", "right"), ("mean latency", "right")]
    columns += [("p50", "right"), ("p99", "right"), ("", "left")]
    yield widgets.Text("loads in flits/node/cycle; latencies in cycles, from birth to the last flit")
    yield ""
    made = table("", columns)
    for one in points:
        cells = (f"{one.rate:g}", f"{one.accepted:.4f}", f"{one.latency:.2f}", f"{one.p50:.0f}", f"{one.p99:.0f}")
        made.add_row(*cells, "" if one.drained else "saturated: packets are left")
    yield made
    yield widgets.Text(f"on an idle network: {idle:.2f} cycles")
    if saturation is not None:
        yield widgets.Text(f"saturates at {saturation:.3f} flits/node/cycle: three times that latency")
    if points and points[-1].links:
        columns = [("link", "left"), ("use", "right"), ("no credit", "right"), ("no channel", "right"), ("lost", "right")]
        made = table(f"most loaded links at {points[-1].rate:g}", columns, "waits in cycles")
        for link in points[-1].links:
            waits = (f"{link[name]:,}" for name in ("no_credit", "no_channel", "lost"))
            made.add_row(link["link"], f"{link['use']:.1%}", *waits)
        yield ""
        yield made
