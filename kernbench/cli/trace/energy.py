"""`kbsim trace energy`: the energy of a run by cause."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.text import BUSY, WORK, Bar, Justify, duration, headed, percent, scaled, table
from kernbench.cli.trace.summary import TraceFile
from kernbench.cli.trace.tables import safe

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.trace.energy import Ledger

JOULES = ("pJ", "nJ", "uJ", "mJ", "J")
USUAL = "part,resource,op"
USUAL_OF_COMPONENTS = "component,op"
NAMED_PARTS = 3  #: parts of a group that are named in its row


def energy(
    file: TraceFile,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="NAME,...",
            help="Fields by which the energy is grouped, separated by commas: part, resource, action, layer, phase, node, "
            "block, head, token, tenant, op, tensor, command; with --components also component.",
            show_default=f"{USUAL}; with --components {USUAL_OF_COMPONENTS}",
        ),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(
            "--components",
            metavar="FILE",
            help="A file that lists the components of a chip, the accesses of each component, and the energy of each access. "
            "The energies in this file replace the energies in the machine file.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Show N rows of each table.")] = 12,
    accesses: Annotated[
        Path | None,
        typer.Option(
            "--accesses",
            metavar="FILE",
            help="Also write a .csv file with the energy of each command on each resource.",
            show_default=False,
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            "--events",
            metavar="FILE",
            help="Also write a .csv file with the energy of every access in the trace, with its cycle.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show what consumed the energy of a run, by part, resource, layer, op, tensor or command. The sums are exact.

    Record the trace with --trace-level full.
    """
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.trace.energy import accesses_csv, check_groupings, energy_to_dict, events_csv, ledger
    from kernbench.trace.energy_components import read_components
    from kernbench.trace.reader import open_trace

    written = tuple(path for path in (accesses, events) if path is not None)
    for path in written:
        check_writable(path)
    check_apart(written, (file,))
    usual = USUAL if components is None else USUAL_OF_COMPONENTS
    groupings = [name.strip() for name in (usual if by is None else by).split(",")]
    check_groupings(groupings)
    if components is None and "component" in groupings:
        rule, remedy = "the machine does not name components", "name a file of components: --components FILE"
        raise InputError(Problem("kbsim trace energy", rule, "--by", "component", remedy))
    chip = None if components is None else read_components(components)

    def priced(*, each: bool) -> Ledger:
        return ledger(open_trace(file), each=each) if chip is None else chip.price(open_trace(file), each=each)

    found = priced(each=False)
    made = energy_to_dict(found, groupings)
    if accesses is not None:
        write_whole(accesses, accesses_csv(found).encode())
    if events is not None:
        write_whole(events, events_csv(priced(each=True)).encode())
    if as_json:
        output.show_json(made)
    else:
        output.show(energy_tables(found, groupings, top, output.console(sys.stdout).width))
    return output.OK


def energy_tables(found: Ledger, groupings: list[str], most: int, width: int) -> Iterator[RenderableType]:
    """The total, and a table for each grouping."""
    total, ns = found.total, found.ns
    text = headed("Energy").append(scaled(float(total), JOULES), "bold")
    if ns:
        text.append(f" in {duration(float(ns))}, {scaled(float(total / ns), ('mW', 'W', 'kW'))} on average")
    yield text
    if not total:
        yield widgets.Text("all prices of the machine's energy section are 0, or nothing was done")
        return
    for grouping in groupings:
        yield ""
        yield _group_table(found, grouping, most, width)


def _group_table(found: Ledger, grouping: str, most: int, width: int) -> Table:
    shares, total = found.by(grouping), found.total
    note = f"the largest {most} of {len(shares):,}" if len(shares) > most else ""
    columns: list[tuple[str, Justify]] = [(grouping, "left"), ("", "left"), ("share", "right"), ("energy", "right")]
    with_parts = grouping not in ("part", "resource", "action", "component")
    made = table(f"Energy by {grouping}", [*columns, *([("mostly", "left")] if with_parts else [])], note)  # type: ignore[list-item]
    rows: list[list[str]] = []
    for share in shares[:most]:
        cells = [safe(share.name, 40), percent(float(share.pj / total)), scaled(float(share.pj), JOULES)]
        if with_parts:
            parts = sorted(share.parts.items(), key=lambda item: -item[1])[:NAMED_PARTS]
            cells.append(", ".join(f"{name} {percent(float(pj / share.pj))}" for name, pj in parts if share.pj))
        rows.append(cells)
    taken = sum(2 + max(map(len, column)) for column in zip((grouping, "share", "energy", "mostly"), *rows, strict=False))
    length = min(width // 4, max(4, width - taken))
    for share, (name, portion, energy, *mostly) in zip(shares, rows, strict=False):
        bar = Bar([(float(share.pj / total), BUSY, WORK)], length)
        made.add_row(name, bar, widgets.Text(portion, "bold"), energy, *mostly)
    return made
