"""Measures how well one half of a published table predicts the other half, and records the errors in docs/validation.md.

    python docs/validation_halves.py DIR [TABLE...]

`DIR` has the tables of `kbsim validate chips`. If the names of some tables are given, such as `a100/llmcompass_gelu.csv`, the
lines of the others stay as they are. A fit starts from the chip's datasheet with the constants of other chips, and
from a profile without the constants that the table determined. So no fit starts from a value that was fitted to the same table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from kernbench.analysis.chips.calibrate import constants_for
from kernbench.analysis.chips.cases import Case
from kernbench.analysis.chips.choice import Held, Split, chosen_fit, even, shapes
from kernbench.analysis.chips.fit import predictions, relative_errors
from kernbench.analysis.chips.leave_out import as_new, profile_left_out
from kernbench.analysis.chips.tables import Table, read_tables
from kernbench.config import NpuConfig
from kernbench.config.runtime import Runtime, load_runtime

PAGE = Path(__file__).parent / "validation.md"
RECORDED = "<!-- halves of tables: docs/validation_halves.py writes these lines -->\n", "<!-- end of the halves of tables -->\n"
MAX_ROWS = 48  #: rows of a table, evenly spaced
FEWEST = 8  #: a table with fewer rows has no halves
HALVES = ("large shapes", "small shapes", "skinny products")


def lines(tables: Sequence[Table], known: Mapping[str, str]) -> Iterator[str]:
    """A line for each table of a chip that has other calibrated chips beside it. `known`: lines that stay, by table."""
    columns = ("table", *HALVES, "an operation", "before the fit", "values of the files")
    yield "| " + " | ".join(columns) + " |"
    yield "|---" + "|---:" * (len(columns) - 1) + "|"
    for table in tables:
        if table.machine is None or table.family == "model" or len(table.cases) < FEWEST:
            continue
        if table.name in known:
            yield known[table.name]
            continue
        machine = as_new(table)
        if machine is None:
            continue
        print(table.name, file=sys.stderr, flush=True)
        runtime = profile_left_out(table, tables)
        cases = [table.cases[i] for i in even(table.cases, MAX_ROWS)]
        names = [case.operation.name if case.operation is not None else case.op for case in cases]
        held = {one.name: _held(one, cases, names, machine, runtime) for one in shapes(cases, names)}
        each: list[Held] = []
        if len(set(names)) > 1 and table.family == "operations":
            of = {name: [i for i, one in enumerate(names) if one == name] for name in dict.fromkeys(names)}
            each = [_held(Split(name, [out]), cases, names, machine, runtime) for name, out in of.items()]
        cells = [_text(held[name]) if name in held else "n/a" for name in HALVES]
        cells.append(_worst(each))
        for some in ((machine, runtime), (table.machine, load_runtime(table.runtime))):
            errors = relative_errors(cases, predictions(cases, *some))
            cells.append(f"{median(errors):.0%}, {fmean(errors):.0%}")
        yield f"| `{table.name}` | " + " | ".join(cells) + " |"


def _held(split: Split, cases: Sequence[Case], names: Sequence[str], machine: NpuConfig, runtime: Runtime) -> Held:
    """The errors of the rows of a split after a fit of the others."""
    (out,) = map(set, split.parts)
    rest, held = [i for i in range(len(cases)) if i not in out], [cases[i] for i in sorted(out)]
    found, _ = chosen_fit(
        [cases[i] for i in rest], [names[i] for i in rest], machine, runtime, lambda some: constants_for(some, machine, runtime)
    )
    errors = relative_errors(held, predictions(held, found.machine, found.runtime))
    return Held(split.name, len(errors), median(errors), fmean(errors))


def _text(one: Held) -> str:
    return f"{one.median:.0%}, {one.mean:.0%}"


def _worst(each: Sequence[Held]) -> str:
    """The median over operations, and the operation with the largest error."""
    if not each:
        return "n/a"
    far = max(each, key=lambda one: one.median)
    return f"{median(one.median for one in each):.0%}; {far.name} {far.median:.0%}"


def record(folder: Path, names: Sequence[str]) -> None:
    """Writes the lines to the page: those of the named tables, or all lines."""
    begin, end = RECORDED
    before, rest = PAGE.read_text().split(begin)
    recorded, after = rest.split(end)
    of = {line.split("`")[1]: line for line in recorded.splitlines() if line.startswith("| `")}
    known = {name: line for name, line in of.items() if names and name not in names}
    found = "\n".join(lines(list(read_tables(folder)), known))
    PAGE.write_text(before + begin + "\n" + found + "\n\n" + end + after)


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2:])
