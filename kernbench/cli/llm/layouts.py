"""`kbsim llm --parallel`: the layouts that fit a machine, with the fastest first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.cli.llm.options import LlmOptions, print_notes, refused
from kernbench.cli.llm.report import llm_summary
from kernbench.cli.target import note_machine
from kernbench.cli.text import Justify, duration, short, table, unit
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.workloads.parallel.search import Candidate as Found


def search_layouts(options: LlmOptions, *, compared: bool, files: dict[str, Path | None], as_json: bool, quiet: bool) -> int:
    """Run the layouts that fit, and show them with the fastest first."""
    from kernbench.cli.progress import counting_bar
    from kernbench.workloads.parallel.search import search

    for option, path in files.items():
        if path is not None:
            raise refused(
                "a search for a layout cannot write this file",
                f"--{option}",
                path,
                "run the search first, then the fastest layout",
            )
    if compared:
        raise InputError(
            Problem("kbsim llm", "the search compares layouts already", "--parallel", remedy="leave out --compare")
        )
    given = [name for name in ("tp", "cp", "pp", "dp", "sp") if getattr(options, name) > (name != "sp")]
    given += ["rank"] * (options.rank != "pe")
    if given:
        rule = f"the search finds {', '.join(f'--{name}' for name in given)} itself"
        raise InputError(Problem("kbsim llm", rule, "--parallel", "auto", "leave them out, or leave out --parallel"))
    model, precision, machine, job, limit = options.parts()
    print_notes(options, quiet)
    note_machine(machine, quiet=quiet)
    with counting_bar(not (quiet or as_json), "layouts") as progress:
        found = search(model, precision, machine, job, max_cycles=limit, progress=progress)
    if as_json:
        output.show_json({
            "status": "done",
            "layouts": [
                {
                    **one.layout.to_dict(), "pes": one.layout.pes, "least_bytes": one.least_bytes, "estimate": one.estimate,
                    "cycles": one.cycles, "verdict": one.verdict,
                    "tokens_per_s": None if one.report is None else one.report.tokens_per_s,
                }
                for one in found
            ],
            "best": found[0].report.to_dict() if found[0].report is not None else None,
        })  # fmt: skip
    elif not quiet:
        output.show([layout_table(found)])
        if found[0].report is not None:
            output.show(["", *llm_summary(found[0].report)])
    return output.OK


SHOWN = 16  #: layouts of a table


def layout_table(found: Sequence[Found]) -> Table:
    """A row for each layout: those that ran, and the nearest estimates."""
    columns: list[tuple[str, Justify]] = [(name, "right") for name in ("tp", "cp", "pp", "dp", "PEs", "DRAM", "time")]
    note = f"{len(found):,} fit; DRAM: weights and caches of the fullest PE"
    made = table("Layouts", [*columns, ("tokens/s", "right"), ("", "left")], note)
    made.columns[-1].no_wrap = False
    for one in found[:SHOWN]:
        cut, report = one.layout, one.report
        time = rate = "n/a"
        if report is not None and one.cycles is not None:
            time = duration(report.ns(one.cycles), 4)
            rate = "n/a" if report.tokens_per_s is None else short(report.tokens_per_s)
        shards = f"{cut.tp:,} sp" if cut.sp else f"{cut.tp:,}"
        sizes = (shards, f"{cut.cp:,}", f"{cut.pp:,}", f"{cut.dp:,}", f"{cut.pes:,}", unit(one.least_bytes, "B"))
        made.add_row(*sizes, time, rate, one.verdict)
    return made
