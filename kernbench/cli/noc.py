"""`kbsim noc`: recorded traffic of real chips on the simulated network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.commands import Section
from kernbench.cli.options import Json, Quiet
from kernbench.cli.text import Justify, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.noc.outcome import Outcome


app = Section("Replay recorded traffic of a chip's network.")


class Asked(StrEnum):
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
    """Replay recorded traffic of a chip's network."""


@app.command()
def replay(
    traces: Traces,
    device: Annotated[
        str, typer.Option("--device", "-d", metavar="NAME|FILE", help="The chip: a preset's name, or a .yaml or .json file.")
    ] = "wormhole",
    mode: Annotated[
        Asked,
        typer.Option(
            "--mode",
            help="Issue transfers at their recorded times, or as soon as the barriers before them allow.",
        ),
    ] = Asked.BOTH,
    slowest: Annotated[
        int, typer.Option("--slowest", metavar="N", min=0, help="Show the N transfers that waited longest.")
    ] = 5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Replay NoC traces and compare their cycles with those of the chip."""
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
    """The trace files, or those of a directory sorted by name."""
    from kernbench.common.errors import InputError, Problem

    out: list[Path] = []
    for text in paths:
        path = Path(text)
        inside = sorted(path.glob("*.json")) if path.is_dir() else [path]
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
