"""Replays of NoC traces, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.text import Justify, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.noc.outcome import Outcome

_TITLES = {"recorded": "at recorded times", "closed": "closed loop"}
_HEADERS = {"recorded": "recorded", "closed": "closed"}


def replay_tables(outcomes: Sequence[Outcome], device: str) -> Iterator[RenderableType]:
    """A row a trace, the mean error of several, and of a single trace the transfers that waited longest."""
    modes = list(dict.fromkeys(one.mode for one in outcomes))
    traces = list(dict.fromkeys(one.trace for one in outcomes))
    yield Text(f"{device}: cycles of each trace")
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
        yield Text(f"note: {note}")


def _means(outcomes: Sequence[Outcome], modes: Sequence[str]) -> Iterator[RenderableType]:
    for mode in modes:
        errors = sorted(abs(one.error) for one in outcomes if one.mode == mode)
        middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
        said = f"mean {sum(errors) / len(errors):.2%}, median {middle:.2%}, largest {errors[-1]:.2%} of {len(errors)} traces"
        yield Text(f"error {_TITLES[mode]}: {said}")


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
