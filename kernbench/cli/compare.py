"""`kbsim compare`: one target on several machines, side by side, and why they differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.endings import answering
from kernbench.cli.options import AllowCode, Dark, Json, Quiet, theme_of
from kernbench.cli.text import (
    BUSY,
    DIM,
    LIMIT,
    WIDE,
    WORK,
    Bar,
    Justify,
    duration,
    headed,
    percent,
    size_text,
    status_text,
    table,
)
from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.analysis.compare import Compared
    from kernbench.common.look.palette import Theme
    from kernbench.config import NpuConfig, SystemConfig

AnyCase = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A bench (its name or a .py file), a program (.json, .yaml), a workload, "
        "a language model (llama3-8b, or its config.json) or an ONNX file.",
        show_default=False,
    ),
]
CaseSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a value of the machines (dram.channels=4) or a parameter of the target. A bench has its own parameters, "
        "such as n=512. Models have the parameters prompt, tokens, batch, layers, w, a, kv, page, tp and phase. Graphs have "
        "the parameters w and a, and a parameter for each named dimension. May be repeated.",
        show_default=False,
    ),
]
Machines = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="A machine: a name that kbsim config list prints, or a .yaml or .json file. Repeat this option for each machine. "
        "Each further machine is compared with the first machine.",
        show_default=False,
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the time of each machine, split by cause, as .svg "
        "or .png.", show_default=False)
]


def compare(
    target: AnyCase,
    config: Machines = None,
    settings: CaseSettings = None,
    allow_code: AllowCode = None,
    plot: Plot = None,
    dark: Dark = False,
    noc: Annotated[
        bool,
        typer.Option("--noc", help="Run one machine with two models of its network, and compare the results. The first model "
            "divides the bandwidth of a link among flows. The second model sends flits over routers."),
    ] = False,
    no_why: Annotated[
        bool, typer.Option("--no-why", help="Report only times and bounds, without causes. With --no-why, the command is much "
            "faster, because it needs no traced run.")
    ] = False,
    runtime: Annotated[
        str | None, typer.Option("--runtime", metavar="NAME|FILE", show_default=False, help="Runtime profile, "
            "for a language model on chips or boards of chips. The host launches the kernels of each step as the profile says. "
            "The compared times include the time of the host software.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run one target on several machines, compare the results, and explain the differences."""
    from kernbench.analysis.case import ModelCase
    from kernbench.analysis.compare import compare_machines, with_network
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.target import find_case, load_machine, note_chips

    theme = theme_of("kbsim compare", dark=dark, plot=plot)
    named = _one(config or []) if noc else _named(config or [])
    if runtime is not None:
        from kernbench.cli.compare_chips import compare_chips

        _check_profile(noc=noc, plot=plot)
        return compare_chips(
            target, named, settings or (), runtime, kernels=not no_why, as_json=as_json, quiet=quiet,
            allow_code=allow_code or (),
        )  # fmt: skip
    _check_plot(plot, [target, *named.values()], no_why=no_why)
    case, rest = find_case(target, settings)
    machines: dict[str, NpuConfig | SystemConfig] = {
        name: load_machine(source, rest, quiet=quiet, allow_code=allow_code or ()) for name, source in named.items()
    }
    if isinstance(case, ModelCase):
        note_chips(machines.values(), quiet=quiet)
    if noc:
        (source,), (machine,) = named.values(), machines.values()
        machines = {
            model: load_machine(source, [*rest, *(f"{key}={value}" for key, value in keys.items())], quiet=True,
                                allow_code=allow_code or ())
            for model, keys in with_network(machine).items()
        }  # fmt: skip
    with progress_bar(not (as_json or quiet)) as progress:
        found = compare_machines(case, machines, progress)
    why = not no_why and len(found.done) > 1
    if why and not (as_json or quiet):
        _trace_each(found)
    if as_json:
        output.show_json(found.to_dict(why=why))
    elif not quiet:
        output.show(comparison(found, why, output.console(sys.stdout).width))
    if plot is not None:
        with answering(as_json):
            draw(found, plot, theme)
    return max((output.ENDINGS[one.status] for one in found.outcomes.values()), default=output.OK)


def _named(given: Sequence[str]) -> dict[str, str]:
    """The machines by their names. InputError for fewer than two, and for one that is given twice."""
    if len(given) < 2:
        rule, names = "a comparison needs at least two machines", ["npu_mobile", "npu_server"]
        if given and "," in given[0]:
            names = [name.strip() for name in given[0].split(",") if name.strip()]
        remedy = f"write kbsim compare TARGET {' '.join(f'-c {name}' for name in names)}"
        raise InputError(Problem("kbsim compare", rule, "--config", ", ".join(given) or ABSENT, remedy))
    again = next((one for one in given if given.count(one) > 1), None)
    if again is not None:
        raise InputError(Problem("kbsim compare", "this machine is given twice", "--config", again, "leave one of them out"))
    stems = [Path(one).stem if one.lower().endswith((".yaml", ".yml", ".json")) else one for one in given]
    return {stem if stems.count(stem) == 1 else source: source for stem, source in zip(stems, given, strict=True)}


def _one(given: Sequence[str]) -> dict[str, str]:
    """The machine of `--noc`. InputError for no machine, and for several."""
    if len(given) != 1:
        remedy = "kbsim compare TARGET -c npu_server --noc"
        raise InputError(Problem("kbsim compare", "--noc needs one machine", "--config", ", ".join(given), remedy))
    return {given[0]: given[0]}


def _check_profile(*, noc: bool, plot: Path | None) -> None:
    """InputError for an option that the kernels of a runtime profile do not take."""
    for option, given in (("--noc", noc), ("--plot", plot is not None)):
        if given:
            rule = "with --runtime, the kernels of chips run in sequence, without a network and without causes in cycles"
            raise InputError(Problem("kbsim compare", rule, option, remedy=f"leave out {option}, or leave out --runtime"))


def _check_plot(plot: Path | None, read: Sequence[str], *, no_why: bool) -> None:
    """InputError, before any run, if the picture cannot be written."""
    from kernbench.common.files import check_apart, check_writable

    if plot is None:
        return
    if plot.suffix.lower() not in (".svg", ".png"):
        raise InputError(Problem("kbsim compare", "the file name must end in .svg or .png", "--plot", str(plot)))
    if no_why:
        raise InputError(
            Problem("kbsim compare", "the plot shows causes, which are not computed with --no-why", "--plot", str(plot))
        )
    check_writable(plot)
    check_apart([plot], read)


def _trace_each(found: Compared) -> None:
    """Ask for the causes with a bar on a terminal: these runs are traced, which is slower."""
    from kernbench.cli.progress import counting_bar

    with counting_bar(True, "machines traced") as progress:
        for done, name in enumerate(found.done, 1):
            found.times(name)
            if progress is not None:
                progress(done, len(found.done))


MAX_CHANGES = 3
MAX_SETTINGS = 4
NAME, MAX_CAUSES = 16, 8  #: characters of a machine's name in a column; rows of causes


def comparison(found: Compared, why: bool, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim compare`."""
    yield widgets.Text(found.sentence, LIMIT)
    yield ""
    yield _machines(found, width)
    yield from _congested(found)
    if not why:
        return
    yield ""
    yield _causes(found, width)
    yield ""
    yield from _reasons(found)


def _machines(found: Compared, width: int) -> Table:
    columns: list[tuple[str, Justify]] = [("machine", "left"), ("", "left"), ("time", "right"), ("speed", "right")]
    columns += [("cycles", "right"), ("bound by", "left"), ("of bound", "right")]
    made = table("Machines", columns)
    longest = max((one.t_ns for one in found.outcomes.values()), default=0.0) or 1.0
    for name, ran in found.outcomes.items():
        speed = found.speedup(name)
        made.add_row(
            widgets.Text(name, LIMIT if name == found.fastest and len(found.done) > 1 else ""),
            Bar([(ran.t_ns / longest, BUSY, WORK)], 24 if width >= WIDE else 10),
            duration(ran.t_ns),
            _speed(speed) if speed is not None else status_text(ran.status),
            f"{ran.cycles:,}",
            _kind(ran.bound_by),
            percent(ran.bound_share) if ran.status == "done" else "n/a",
        )
    return made


MAX_ROUTER_LINKS = 5


def _congested(found: Compared) -> Iterator[RenderableType]:
    """Where flits waited. Fluid links do not show these waits."""
    from kernbench.analysis.compare import router_links

    for name, ran in found.outcomes.items():
        links = router_links(ran)
        if not links:
            continue
        waited = [link for link in links if link.waited][:MAX_ROUTER_LINKS]
        yield ""
        if not waited:
            yield widgets.Text(f"{name}: no flit waited at a link between routers", DIM)
            continue
        counts = ("flits", "no credit", "no channel", "lost")
        columns: list[tuple[str, Justify]] = [("link", "left"), *((one, "right") for one in counts)]
        made = table(f"Waits of flits on {name}, in cycles", columns)
        for link in waited:
            waits = (f"{cycles:,}" if cycles else widgets.Text("0", DIM) for cycles in link.waits)
            made.add_row(link.name, f"{link.flits:,}", *waits)
        yield made


def _speed(factor: float) -> str:
    return f"{factor:.2f} x" if factor < 9.995 else f"{factor:,.3g} x"


def _kind(bound: str) -> str:
    """The kind of resource of a bound, in one word: resources of different machines have different names."""
    from kernbench.common.naming import counted as kind_of

    kind = kind_of(bound.rpartition(" ")[2]) if bound != "critical path" else bound
    return {"dram": "DRAM", "noc": "link"}.get(kind, kind)


def _causes(found: Compared, width: int) -> Table:
    """The time by cause: one row for each cause, and one column for each machine that fits."""
    names = found.done
    fit = max(2, (width - 30) // 14)
    more = len(names) - fit
    note = f"{counted(more, 'more machine')} in --json" if more > 0 else ""
    made = table("Where the time went", [("cause", "left"), *((_cut(name), "right") for name in names[:fit])], note)
    times = {name: found.times(name) for name in names}
    causes = dict.fromkeys(cause for name in names for cause in times[name])
    largest = {cause: max(times[name].get(cause, 0.0) / (found.outcomes[name].t_ns or 1) for name in names) for cause in causes}
    listed = sorted((cause for cause in causes if largest[cause] >= 0.01), key=lambda cause: -largest[cause])[:MAX_CAUSES]
    for cause in listed:
        cells = []
        for name in names[:fit]:
            ns = times[name].get(cause, 0.0)
            share = percent(ns / (found.outcomes[name].t_ns or 1))
            cells.append(widgets.Text(f"{duration(ns, 3)} {share:>4}") if ns else widgets.Text("0", DIM))
        made.add_row(widgets.Text(cause), *cells)
    return made


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _reasons(found: Compared) -> Iterator[widgets.Text]:
    """For each machine, one line: the causes that take more or less time than on the first machine, and the keys that decide
    them."""
    for name in found.done:
        if name == found.first or found.first not in found.done:
            continue
        changes = found.changes(name)[:MAX_CHANGES]
        words = [f"{one.cause} takes {duration(abs(one.ns), 3)} {'more' if one.ns > 0 else 'less'}" for one in changes]
        yield headed(f"{name} against {found.first}:").append("; ".join(words) or "no cause differs by 2% of the run")
        settings = [f"{path} {_plain(path, before)} -> {_plain(path, after)}" for path, before, after in found.settings(name)]
        if changes:
            yield from (widgets.Text(f"  {one}", DIM) for one in settings[:MAX_SETTINGS])
        if changes and len(settings) > MAX_SETTINGS:
            yield widgets.Text(f"  and {len(settings) - MAX_SETTINGS} more of these parts that differ", DIM)


def _plain(path: str, value: Any) -> str:
    return size_text(value) if path.endswith("_bytes") and isinstance(value, int) and value >= 1 << 10 else str(value)


MAX_PARTS = 7  #: causes in the picture; the others are combined
LEAST_PART = 0.01  #: share of a machine's time: causes below this share on every machine are combined too


def draw(found: Compared, path: Path, theme: Theme = "light") -> None:
    """Write the picture."""
    from kernbench.common.files import write_whole

    write_whole(path, picture(found, path.suffix.lower().removeprefix("."), theme))


def picture(found: Compared, form: str, theme: Theme = "light") -> bytes:
    """One bar for each machine, divided by the causes of its time. The same runs and version of matplotlib give the same
    bytes.
    """
    import matplotlib
    from matplotlib.figure import Figure

    from kernbench.common.look.palette import colour, resource_of
    from kernbench.common.look.plots import saved, settings

    names = found.done
    times = {name: found.times(name) for name in names}
    total = {cause: sum(times[name].get(cause, 0.0) for name in names) for one in times.values() for cause in one}
    causes = sorted(total, key=lambda cause: (-total[cause], cause))
    whole = {name: sum(times[name].values()) for name in names}
    seen = [cause for cause in causes if any(times[name].get(cause, 0.0) >= LEAST_PART * whole[name] for name in names)]
    shown = seen[:MAX_PARTS]
    rest = [cause for cause in causes if cause not in shown]
    longest = max((found.outcomes[name].t_ns for name in names), default=0.0)
    scale, unit = next(((s, u) for s, u in ((1e9, "s"), (1e6, "ms"), (1e3, "us")) if longest >= s), (1.0, "ns"))
    with matplotlib.rc_context(settings(theme)):
        figure = Figure(figsize=(10, 1.6 + 0.5 * len(names)), layout="constrained")
        axes = figure.subplots()
        left = [0.0] * len(names)
        parts = {cause: [cause] for cause in shown} | ({"all else": rest} if rest else {})
        for cause, some in parts.items():
            part = [sum(times[name].get(one, 0.0) for one in some) / scale for name in names]
            hue = colour("other" if some is rest else resource_of(cause), theme)
            axes.barh(range(len(names)), part, left=left, color=hue, edgecolor=colour("card", theme), label=cause)
            left = [a + b for a, b in zip(left, part, strict=True)]
        for row, name in enumerate(names):
            label = duration(found.outcomes[name].t_ns)
            axes.annotate(label, (left[row], row), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlabel(f"time [{unit}]")
        axes.set_title(found.sentence)
        figure.legend(*axes.get_legend_handles_labels(), ncols=4, loc="outside lower left")
        return saved(figure, form)
