"""`kbsim ccl tune`: the estimates of all algorithms by size, simulated or by the cost model, and where the best one changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.ccl.group import PRESETS, GroupShape, MachineOption, Topo, chosen_group, shape_of
from kernbench.cli.ccl.run import Channels, Collective, DataType
from kernbench.cli.ccl.table import protocol_name
from kernbench.cli.endings import answering
from kernbench.cli.options import Dark, Json, Overrides, theme_of
from kernbench.cli.text import size_text, table
from kernbench.cli.values import dtype_of, size_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.ccl.group import Group
    from kernbench.ccl.tuner import Choice, Tuner
    from kernbench.common.look.palette import Theme
    from kernbench.config import SystemConfig

First = Annotated[str, typer.Option("--begin", "-b", metavar="SIZE", help="The smallest size.")]
Last = Annotated[str, typer.Option("--end", "-e", metavar="SIZE", help="The largest size.")]
GroupSize = Annotated[
    int | None, typer.Option("--ranks", "-n", "-g", min=1, metavar="N", help="Number of PEs to use.", show_default="8")
]
Growth = Annotated[int, typer.Option("--factor", "-f", min=1, metavar="N", help="Factor between one size and the next.")]
Simulate = Annotated[
    bool, typer.Option("--simulate", help="Simulate all algorithms at the given sizes, and keep the times for --algo auto.")
]
Estimate = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="Estimate the times for --shape with the cost model, without a simulation. The machine may have fewer SIPs, "
        "cubes or PEs than the shape.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option("--out", "-o", "--save", metavar="FILE", help="Also write the table to FILE, as JSON.", show_default=False),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw time over size for each algorithm, as .svg or .png.", show_default=False),
]


def tune(
    collective: Collective,
    ranks: GroupSize = None,
    shape: GroupShape = None,
    begin: First = "256",
    end: Last = "1M",
    factor: Growth = 8,
    dtype: DataType = "f16",
    config: MachineOption = None,
    overrides: Overrides = None,
    topo: Topo = None,
    channels: Channels = 0,
    simulates: Simulate = False,
    estimates: Estimate = False,
    save: Save = None,
    plot: Plot = None,
    dark: Dark = False,
    as_json: Json = False,
) -> int:
    """Print the time that the tuner estimates for each algorithm of a collective and each size, and the algorithm that
    --algo auto chooses."""
    from kernbench.ccl import tuner as tuning
    from kernbench.ccl.call import check_channels
    from kernbench.ccl.collectives import CCL_DTYPES, COLLECTIVES
    from kernbench.ccl.measure import sizes_between
    from kernbench.ccl.registry import AUTO, read_registry
    from kernbench.cli.ccl.plot import check_plot
    from kernbench.common.dtypes import dtype_of as type_of
    from kernbench.common.files import check_writable, write_whole

    theme = theme_of("kbsim ccl tune", dark=dark, plot=plot)
    if plot is not None:
        check_plot(plot)
    if save is not None:
        check_writable(save)
    registry, kind = read_registry(), dtype_of("kbsim ccl tune", dtype, CCL_DTYPES)
    if estimates:
        machine, group = _estimated(config, overrides or [], shape, topo, simulates)
    else:
        machine, group = chosen_group(
            "kbsim ccl tune", [registry.find(collective, AUTO)], config, overrides or [], (), ranks, shape, topo
        )
    check_channels(machine, channels)
    if channels and simulates:
        rule = "times with --simulate are those of collectives without channels"
        raise InputError(Problem("kbsim ccl tune", rule, "--channels", channels, "leave out one of the two"))
    first, last = size_of("kbsim ccl tune", "--begin", begin), size_of("kbsim ccl tune", "--end", end)
    if last < first or factor < 2:
        raise InputError(Problem("kbsim ccl tune", "sizes must grow, by a factor of at least 2", "--end", end))
    tuner, what = tuning.tuner_of(machine, group, registry), COLLECTIVES[collective]
    sizes = list(sizes_between(first, last, factor)) if what.moves else [0]
    errors = _simulated(tuner, collective, sizes, kind) if simulates else []
    itemsize = type_of(kind).bits // 8
    rows = []
    for size in sizes:
        count = what.count_of(size, group.size, itemsize) if what.moves else 1
        rows.append((size, tuner.choose(collective, count, kind, channels)))
    data = _plain(tuner, collective, rows, errors)
    if as_json:
        output.show_json(data)
    else:
        output.show(_tables(tuner, collective, rows, errors))
    with answering(as_json):
        if save is not None:
            write_whole(save, (json.dumps(data, indent=2) + "\n").encode())
        if plot is not None:
            _draw(tuner, collective, rows, plot, theme)
    return output.OK


def _simulated(tuner: Tuner, collective: Collective, sizes: Sequence[int], kind: str) -> list[float]:
    """Simulate all algorithms at the sizes, and keep the times. The errors of the estimates, relative to the times."""
    from kernbench.ccl.tuner import simulate

    errors: list[float] = []
    before = tuner.times
    try:
        for _, _, cycles, said in simulate(tuner, collective, sizes, kind):
            errors.append(abs(said / cycles - 1) if cycles else 0.0)
    except BaseException:
        if tuner.times != before:  # all algorithms were simulated at some sizes
            _keep(tuner)
        raise
    _keep(tuner)
    return errors


def _keep(tuner: Tuner) -> None:
    """Store the simulated times in the cache, if there is one."""
    from kernbench.ccl import tuner as tuning

    place = tuning.place(tuner.config, tuner.group)
    if place is not None:
        try:
            tuning.save(tuner, place)
        except InputError as error:  # a cache of another user, or a full disk
            output.note(f"note: the simulated times are not kept: {error}")


def _estimated(
    config: str | None, overrides: list[str], shape: str | None, topo: str | None, simulates: bool
) -> tuple[SystemConfig, Group]:
    """A machine, and a group that it need not have. InputError without a shape, and if the group must be simulated."""
    from kernbench.ccl.group import by_nodes, kind_of
    from kernbench.ccl.rings import TOPO_NAME_TO_KIND
    from kernbench.ccl.tuner import Estimated
    from kernbench.config import SystemConfig, load_config

    if shape is None or simulates:
        rule = "it is for a group that is not simulated, of a shape like 1563x8x8"
        raise InputError(Problem("kbsim ccl tune", rule, "--estimate", remedy="give --shape, and leave out --simulate"))
    machine = load_config(config or PRESETS[-1], overrides, kind=SystemConfig)
    if topo is not None and topo not in TOPO_NAME_TO_KIND:
        raise InputError(Problem("kbsim ccl tune", f"it must be one of {', '.join(TOPO_NAME_TO_KIND)}", "--topo", topo))
    wanted = shape_of("kbsim ccl tune", shape)
    return machine, by_nodes(machine, Estimated(wanted, kind_of(machine, wanted, topo), (), ()))


def _plain(tuner: Tuner, collective: str, rows: Sequence[tuple[int, Choice]], errors: Sequence[float]) -> dict[str, Any]:
    several = len(tuner.protocols) > 1
    return {
        "collective": collective,
        "machine": tuner.config.source,
        "ranks": tuner.group.size,
        "shape": list(tuner.group.shape),
        "topology": tuner.group.kind_name,
        "simulated": bool(rows and rows[0][1].simulated),
        "model_error": sorted(errors)[len(errors) // 2] if errors else None,
        "rows": [
            {
                "size": size,
                "algorithm": one.name,
                **({"protocol": one.protocol} if several else {}),
                "cycles": {name: round(cycles) for name, cycles in one.cycles.items()},
                **({"protocols": _by_protocol(one)} if several else {}),
            }
            for size, one in rows
        ],
    }


def _by_protocol(choice: Choice) -> dict[str, dict[str, int]]:
    """Cycles by protocol and algorithm."""
    found: dict[str, dict[str, int]] = {}
    for (name, protocol), cycles in choice.each.items():
        found.setdefault(protocol, {})[name] = round(cycles)
    return found


def _tables(
    tuner: Tuner, collective: str, rows: Sequence[tuple[int, Choice]], errors: Sequence[float]
) -> Iterator[RenderableType]:
    """The table, and the crossovers."""
    source = "simulated times" if rows[0][1].simulated else "estimated times"
    title = f"{collective} of {counted(tuner.group.size, 'rank')} on {tuner.config.source}"
    made = table(title, [("algorithm", "left"), *((_size(size), "right") for size, _ in rows)], note=f"cycles, {source}")
    for name, protocol in rows[0][1].each:
        best = ["*" if (name, protocol) == (one.name, one.protocol) else " " for _, one in rows]
        cells = [f"{one.each[name, protocol]:,.0f}{mark}" for (_, one), mark in zip(rows, best, strict=True)]
        made.add_row(_named(tuner, name, protocol), *cells)
    yield made
    for name, some in groupby(rows, lambda row: _named(tuner, row[1].name, row[1].protocol)):
        yield widgets.Text(f"to {_size(list(some)[-1][0])}: {name}")
    if errors:
        middle = sorted(errors)[len(errors) // 2]
        yield widgets.Text(f"the cost model is off by {middle:.0%} (median of {len(errors)} simulated times)", "dim")


def _named(tuner: Tuner, name: str, protocol: str) -> str:
    """An algorithm, with its protocol if there is a choice."""
    return f"{name}, {protocol_name(protocol)}" if len(tuner.protocols) > 1 else name


def _size(size: int) -> str:
    return size_text(size) if size else "no elements"


@dataclass(frozen=True)
class _Point:
    """A size of a line of the picture."""

    size: int
    time_us: float
    busbw: float


def _draw(tuner: Tuner, collective: str, rows: Sequence[tuple[int, Choice]], path: Path, theme: Theme) -> None:
    """Time and bus bandwidth over size, a line for each algorithm."""
    from kernbench.ccl.collectives import COLLECTIVES
    from kernbench.cli.ccl.plot import picture
    from kernbench.common.files import write_whole

    mhz, factor = float(tuner.config.freq_ghz) * 1e3, float(COLLECTIVES[collective].bus_factor(tuner.group.size))
    lines: dict[str, Any] = {}
    for name in rows[0][1].cycles:
        times = [(size, max(1e-9, one.cycles[name] / mhz)) for size, one in rows]
        lines[name] = [_Point(size, time, size / time / 1e3 * factor) for size, time in times]
    write_whole(path, picture(lines, path.suffix.lower().removeprefix("."), theme))
