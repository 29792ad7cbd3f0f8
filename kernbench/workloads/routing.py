"""Which tokens an expert gets: a stand-in for a router that spreads them evenly.

Which experts a token really goes to depends on data that no program knows. Here the `experts_per_token` choices of all
tokens, first all first choices, then all second ones, are dealt out in equal runs: every expert gets as many as every
other, give or take one, a token never goes to one expert twice, and the tokens of a run follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.common.units import ceil_div
from kernbench.workloads.models import ModelShape


@dataclass(frozen=True, slots=True)
class Part:
    """Rows `[start, start + count)` that go through one feed-forward network together."""

    expert: int | None  #: None: the layer has one network
    choice: int  #: 0 where these rows come to a network for the first time
    start: int
    count: int


def parts(model: ModelShape, rows: int) -> list[Part]:
    """The parts of `rows` tokens in the order of their work."""
    if not model.experts:
        return [Part(None, 0, 0, rows)]
    choices = rows * model.experts_per_token
    found = []
    for expert in range(model.experts):
        start, end = (ceil_div(edge * choices, model.experts) for edge in (expert, expert + 1))
        while start < end:
            choice, row = divmod(start, rows)
            count = min(end - start, rows - row)
            found.append(Part(expert, choice, row, count))
            start += count
    return sorted(found, key=lambda part: (part.choice, part.expert or 0))


def largest_part(model: ModelShape, rows: int) -> int:
    """The rows of the largest part."""
    return max(part.count for part in parts(model, rows))
