"""What `kbsim validate` shows on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.text import WIDE, Justify, table
from kernbench.validate.forms import COLUMNS, cells, reasons

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.validate.run import SuiteRun

STYLES = {"inside": "green", "outside": "bold red", "told": "yellow"}
CASE = 12  #: characters of a case, at least
SIDES: dict[str, Justify] = dict.fromkeys(("expected", "ours", "error", "allowed"), "right")


def suite_text(run: SuiteRun, width: int) -> Iterator[RenderableType]:
    """A suite's table, and why its tolerances are what they are."""
    if run.skipped:
        yield Text.assemble((run.data.title, "bold"), (f"  {run.data.suite}", "dim"))
        yield Text(f"skipped: {run.skipped}", "yellow")
        yield ""
        return
    shown = [name for name in COLUMNS if name != "unit" or width >= WIDE]
    units = ", ".join(dict.fromkeys(row.unit for row in run.rows))
    note = run.data.suite if width >= WIDE else f"{run.data.suite}, in {units}"
    made = table(run.data.title, [(name, SIDES.get(name, "left")) for name in shown], note)
    first = made.columns[0]
    first.no_wrap, first.overflow, first.min_width = False, "fold", CASE
    for row in run.rows:
        texts = dict(zip(COLUMNS, cells(row), strict=True))
        *others, verdict = (texts[name] for name in shown)
        made.add_row(*others, Text(verdict, STYLES[verdict]))
    yield made
    for allowed, why in reasons(run.rows):
        yield Text(f"allowed {allowed}: {why}", "dim")
    yield ""
