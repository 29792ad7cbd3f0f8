"""`kbsim noc`: recorded traffic of real chips on the simulated network."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json, Quiet

app = typer.Typer(help="Replay recorded traffic of a chip's network.", no_args_is_help=True)


class Asked(StrEnum):
    """When transfers are issued."""

    RECORDED = "recorded"
    CLOSED = "closed"
    BOTH = "both"


Traces = Annotated[
    list[str],
    typer.Argument(metavar="TRACE...", help="Traces (.json), or folders of them.", show_default=False),
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
            help="Issue transfers when they were recorded, or when the barriers before them allow.",
        ),
    ] = Asked.BOTH,
    slowest: Annotated[int, typer.Option("--slowest", metavar="N", min=0, help="So many transfers that waited longest.")] = 5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Replay NoC traces, and compare with the cycles that they took on the chip."""
    from kernbench.noc.device import load_device
    from kernbench.noc.events import read_trace
    from kernbench.noc.outcome import MODES, outcome

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
        from kernbench.cli.render_noc import replay_tables

        output.show(replay_tables(found, chip.name))
    return output.OK


def _files(paths: list[str]) -> list[Path]:
    """The traces; of a folder those in it, by name."""
    from kernbench.common.errors import InputError, Problem

    out: list[Path] = []
    for text in paths:
        path = Path(text)
        inside = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not inside:
            raise InputError(Problem(text, "the folder has no .json file"))
        out += inside
    return out
