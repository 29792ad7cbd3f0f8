"""`kbsim trace align`: hardware counters compared with simulated ones."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.text import BAD, WAIT, Justify, duration, percent, short, table
from kernbench.cli.trace.tables import safe
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.trace.compare.align import Aligned, Line
    from kernbench.trace.compare.profile import Alignment


def align(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)],
    counters: Annotated[
        str, typer.Argument(metavar="COUNTERS", help="The measured counters: .csv, .json, .yaml.", show_default=False)
    ],
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="A map from names of hardware counters to names of simulated counters: .yaml, .json.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="OUT", help="Also write a copy of the trace that contains the measured counters.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Read COUNTERS as a profile: a .csv file of operations with names and durations.")
    ] = False,
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules", metavar="FILE", help="With --profile: a file of rules that assign names in the profile to operations.",
            show_default=False,
        ),
    ] = None,
    approve: Annotated[
        list[str] | None,
        typer.Option("--approve", metavar="NAME", help="With --profile: accept the operation that kbsim proposes for the "
            "profile's entry NAME. The value '*' accepts all proposals."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="FILE", help="With --profile: write the given rules and the accepted proposals to a file.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare measured hardware counters, or a measured profile of operations, with the trace of a simulated run."""
    if profile:
        return _profile(file, counters, rules, approve or [], save, mapping or out, as_json=as_json)
    _refuse_without_profile(rules, approve, save)
    from kernbench.common.files import check_writable
    from kernbench.trace.compare.align import align as put_beside
    from kernbench.trace.compare.align import merge, read_meanings, read_readings, to_dict
    from kernbench.trace.exporters.write import whole_file
    from kernbench.trace.reader import open_trace

    if out is not None:
        check_writable(out)
    readings = read_readings(counters)
    meanings = None if mapping is None else read_meanings(mapping)
    found = put_beside(open_trace(file), counters, readings, meanings)
    if out is not None:
        with whole_file(out) as place:
            merge(found, place)
    if as_json:
        output.show_json(to_dict(found))
    else:
        output.show(trace_align(found))
    return output.OK


def _refuse_without_profile(rules: str | None, approve: list[str] | None, save: Path | None) -> None:
    from kernbench.common.errors import InputError, Problem

    for option, given in (("--rules", rules), ("--approve", approve), ("--save", save)):
        if given:
            raise InputError(Problem("kbsim trace align", "this option is only valid with --profile", option, str(given)))


def _profile(
    file: str, source: str, rules: str | None, approve: list[str], save: Path | None, other: Path | None, *, as_json: bool
) -> int:
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_writable, write_whole
    from kernbench.trace.compare.profile import align_profile, profile_to_dict, read_profile, read_rules, rules_text
    from kernbench.trace.reader import open_trace

    if other is not None:
        rule = "--map and --out cannot be used with --profile"
        raise InputError(
            Problem(
                "kbsim trace align", rule, remedy="write a file that maps the names to operations, and pass it with --rules"
            )
        )
    if save is not None:
        check_writable(save)
    known = [] if rules is None else read_rules(rules)
    found, added = align_profile(open_trace(file), source, read_profile(source), known, approve)
    if save is not None:
        write_whole(save, rules_text([*known, *added]).encode())
    if as_json:
        output.show_json(profile_to_dict(found))
    else:
        output.show(profile_tables(found))
    return output.OK


def profile_tables(found: Alignment) -> Iterator[RenderableType]:
    """The output of `kbsim trace align --profile`: errors by class, operations, and proposals that wait for approval."""
    if found.pairs:
        heads: list[tuple[str, Justify]] = [("class", "left"), ("operations", "right"), ("measured", "right")]
        heads += [("simulated", "right"), ("error", "right"), ("mean error", "right")]
        made = table("Error by class", heads, "mean error: of the operations, without sign")
        for one in found.classes():
            times = duration(float(one.measured_us) * 1000), duration(float(one.simulated_us) * 1000)
            made.add_row(one.kind, f"{one.pairs:,}", *times, _error(one.error), percent(float(one.mean)))
        yield made
        yield ""
        heads = [("operation", "left"), ("class", "left"), ("measured", "right"), ("simulated", "right"), ("error", "right")]
        note = f"the first {LIMIT} of {len(found.pairs):,}" if len(found.pairs) > LIMIT else ""
        made = table("Operations", [*heads, ("there called", "left")], note)
        for pair in found.pairs[:LIMIT]:
            times = duration(float(pair.measured_us) * 1000), duration(float(pair.simulated_us) * 1000)
            error = "n/a" if pair.error is None else _error(pair.error)
            made.add_row(safe(pair.operation.name, NAME), safe(pair.kind, NAME), *times, error, _names(pair.names))
        yield made
    if found.proposals:
        if found.pairs:
            yield ""
        heads = [("name", "left"), ("may mean", "left"), ("likeness", "right")]
        made = table("Proposals", heads, "not counted: --approve NAME takes one, --approve '*' all")
        for proposal in found.proposals[:LIMIT]:
            made.add_row(safe(proposal.name, 40), safe(proposal.operation, 40), f"{proposal.likeness:.2f}")
        yield made
    names = {row.name for row in found.unknown} - {proposal.name for proposal in found.proposals}
    if names:
        text = f"{counted(len(names), 'name')} without a rule or a proposal: {safe(', '.join(sorted(names)), 200)}"
        yield widgets.Text(text, WAIT)
    if found.missing:
        text = ", ".join(one.name for one in found.missing)
        yield widgets.Text(f"{counted(len(found.missing), 'simulated operation')} not in the profile: {safe(text, 200)}", WAIT)


def _error(error: Fraction) -> str:
    return f"{100 * float(error):+.1f}%"


LIMIT = 40  #: readings that are shown; --json has all
NAME = 24  #: [character] of a name


def trace_align(aligned: Aligned) -> Iterator[RenderableType]:
    """The output of `kbsim trace align`."""
    lines = aligned.lines
    note = f"the first {LIMIT} of {len(lines):,}" if len(lines) > LIMIT else "ratio: simulated over measured"
    heads = [("counter", "left"), ("unit", "left"), ("cycle", "right"), ("measured", "right"), ("simulated", "right")]
    made = table("Counters", [*heads, ("ratio", "right"), ("as of", "right"), ("here called", "left")], note)  # type: ignore[list-item]
    made.columns[-1].no_wrap = False
    if not any(line.reading.unit is not None for line in lines):
        made.columns[1].width = 0
    for line in lines[:LIMIT]:
        made.add_row(*_cells(line))
    yield made
    unknown = sum(not line.counters for line in lines)
    if unknown:
        yield widgets.Text(
            f"{counted(unknown, 'reading')} of counters that the simulation does not have: --map can map them", WAIT
        )
    unsampled = sum(bool(line.counters) and line.simulated is None for line in lines)
    if unsampled:
        yield widgets.Text(f"{counted(unsampled, 'reading')} of counters that this trace has only at its end", WAIT)
    if aligned.late:
        yield widgets.Text(
            f"{counted(aligned.late, 'reading')} from after the run's end, cycle {aligned.end:,}, stand there", WAIT
        )


def _cells(line: Line) -> list[str | widgets.Text]:
    ratio = line.ratio
    style = "" if ratio is None or abs(ratio - 1) <= Fraction(1, 20) else f"bold {BAD}"
    simulated = "" if line.simulated is None else short(float(line.simulated))
    return [
        safe(line.reading.counter, NAME),
        safe(line.reading.unit or "", NAME),
        "end" if line.cycle is None else f"{line.cycle:,}",
        short(float(line.measured)),
        simulated,
        widgets.Text("" if ratio is None else f"{float(ratio):.3f}", style),
        "" if line.as_of is None else f"{line.as_of:,}",
        _names(line.counters),
    ]


def _names(names: tuple[str, ...]) -> str:
    """The first counter, and how many are added to it."""
    return safe(names[0] if names else "", 40) + (f" +{len(names) - 1:,}" if len(names) > 1 else "")
