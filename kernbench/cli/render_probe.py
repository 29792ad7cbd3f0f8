"""What a probe found, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.text import WIDE, Justify, percent, share_text, size_text, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.probe import ProbeRow


def probe_table(rows: Sequence[ProbeRow], machine: str, width: int) -> Iterator[RenderableType]:
    """What `kbsim probe` prints: latency and its parts, bandwidth, and what limits it."""
    yield Text(f"{machine}: each pattern alone; cycles of the slowest transfer = setup + links + transfer")
    if not rows:
        yield "no size fits into a scratchpad and a slice of HBM"
        return
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("pattern", "left"), ("size", "right"), ("cycles", "right"), ("setup", "right")]
    columns += [("links", "right"), ("transfer", "right"), ("B/cycle", "right"), ("use", "right")]
    columns += [("limited by", "left")] if wide else []
    made = table("", columns, "")
    said = ""
    for row in rows:
        name = row.pattern if row.pattern != said else ""
        said = row.pattern
        count = f" x {row.transfers}" if row.transfers > 1 and name else ""
        cells: list[str | Text] = [name + count, size_text(row.bytes), f"{row.cycles:,}", f"{row.setup:,}", f"{row.links:,}"]
        cells += [f"{row.transfer:,}", share_text(float(row.bandwidth)), Text(percent(float(row.utilisation)), "bold")]
        if wide:
            cells.append(row.bottleneck)
        made.add_row(*cells)
    yield ""
    yield made
    if not wide:
        yield ""
        limits = dict.fromkeys((row.pattern, row.bottleneck) for row in rows)
        for pattern, bottleneck in limits:
            yield Text.assemble((f"{pattern} is limited by ", "dim"), bottleneck)
