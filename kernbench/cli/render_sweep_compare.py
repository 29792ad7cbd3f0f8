"""Two sweeps side by side, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.render_trace_parts import safe
from kernbench.cli.text import table
from kernbench.sweep.compare_forms import headline, time_text
from kernbench.trace.diff_forms import share

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.sweep.compare import Comparison, Pair

LABEL = 120  # characters of a point


def comparison_text(found: Comparison, limit: Fraction | None, top: int, width: int) -> Iterator[RenderableType]:
    """All of it."""
    failed = limit is not None and bool(found.failing(limit))
    yield Text(headline(found, limit), "bold red" if failed else "bold")
    for title, pairs in (("Broke", found.broken), ("Slower", found.slower), ("Faster", found.faster)):
        if pairs:
            yield ""
            yield _table(title, pairs, top)
    for side, labels in (("A", found.only_a), ("B", found.only_b)):
        if labels:
            yield ""
            yield Text(f"{len(labels):,} only in {side}, the first {safe(labels[0], LABEL)}", "dim")


def _table(title: str, pairs: Sequence[Pair], top: int) -> Table:
    note = f"{min(top, len(pairs))} of {len(pairs):,}"
    made = table(title, [("time", "right"), ("cycles A", "right"), ("B", "right"), ("point", "left")], note)
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for pair in pairs[:top]:
        grown = "" if pair.growth is None else share(pair.growth, sign=True, even=True)
        made.add_row(grown, time_text(pair.a), time_text(pair.b), safe(pair.label, LABEL))
    return made
