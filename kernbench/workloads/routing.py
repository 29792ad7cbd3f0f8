"""Which tokens an expert gets: a stand-in for a router, whose choices depend on data.

Which experts a token really goes to depends on data that no program knows. Here the `experts_per_token` choices of all
tokens, first all first choices, then all second ones, are dealt out in equal runs: every expert gets as many as every
other, give or take one, a token never goes to one expert twice, and the tokens of a run follow each other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.document import read_document
from kernbench.workloads.models import ModelShape


class ExpertRows(msgspec.Struct, frozen=True):
    """Rows `[start, start + count)` that go through one feed-forward network together."""

    expert: int | None  #: None: the layer has one network
    choice: int  #: 0 where these rows come to a network for the first time
    start: int
    count: int


def parts(model: ModelShape, rows: int) -> list[ExpertRows]:
    """The parts of `rows` tokens in the order of their work."""
    if not model.experts:
        return [ExpertRows(None, 0, 0, rows)]
    choices = rows * model.experts_per_token
    found = []
    for expert in range(model.experts):
        start, end = (ceil_div(edge * choices, model.experts) for edge in (expert, expert + 1))
        while start < end:
            choice, row = divmod(start, rows)
            count = min(end - start, rows - row)
            found.append(ExpertRows(expert, choice, row, count))
            start += count
    return sorted(found, key=lambda part: (part.choice, part.expert or 0))


def largest_part(model: ModelShape, rows: int) -> int:
    """The rows of the largest part."""
    return max(part.count for part in parts(model, rows))


_DRAWS = 64  #: draws of all experts, some of which repeat an expert, before chosen experts are left out
ROUTINGS = ("even", "uniform", "zipf:S", "FILE")


class Routing(msgspec.Struct, frozen=True):
    """How many rows each expert gets. Equal layers get equal rows, so that they take equal time.

    `shares`: how often each expert is wanted, relative to the others; empty: all alike. `skew`: the `S` of 1 / rank ** S.
    """

    kind: str = "even"  #: even, uniform, zipf or file
    skew: float = 0.0
    shares: tuple[float, ...] = ()
    seed: int = 0

    def rows(self, experts: int, top_k: int, rows: int) -> tuple[int, ...]:
        """The rows of each expert: `top_k` different ones for each token. InputError if `shares` are of another number."""
        if self.kind == "even":
            edges = [ceil_div(edge * rows * top_k, experts) for edge in range(experts + 1)]
            return tuple(end - start for start, end in pairwise(edges))
        if self.shares and len(self.shares) != experts:
            rule = f"the model has {experts} experts, so the file must have a share for each"
            raise InputError(Problem("kbsim llm", rule, "routing", len(self.shares)))
        generator = random.Random(self.seed)
        wanted = self.shares or _zipf(self.skew, experts)
        counts = [0] * experts
        top_k = min(top_k, sum(1 for share in wanted if share))
        for _ in range(rows):
            for expert in _chosen(generator, wanted, top_k):
                counts[expert] += 1
        return tuple(counts)


def _chosen(generator: random.Random, wanted: Sequence[float], top_k: int) -> set[int]:
    """`top_k` different experts, drawn by their shares. After `_DRAWS` draws, chosen experts are left out of the next ones."""
    experts, chosen = range(len(wanted)), set[int]()
    for _ in range(_DRAWS):
        if len(chosen) == top_k:
            return chosen
        chosen.update(generator.choices(experts, wanted, k=top_k - len(chosen)))
    while len(chosen) < top_k:
        rest = [0.0 if expert in chosen else share for expert, share in enumerate(wanted)]
        chosen.update(generator.choices(experts, rest))
    return chosen


def _zipf(skew: float, experts: int) -> tuple[float, ...]:
    """`1 / rank ** skew` of each rank from 1 on. Powers are decimal, since those of the C library differ between machines."""
    context = Context(prec=40)
    return tuple(float(context.power(Decimal(rank), Decimal(-skew))) for rank in range(1, experts + 1))


def routing_of(text: str, seed: int = 0) -> Routing:
    """`even`, `uniform`, `zipf:1.2`, or a JSON or YAML file with the shares of all experts. InputError for anything else."""
    if text in ("even", "uniform"):
        return Routing(text, seed=seed)
    if text.startswith("zipf:"):
        try:
            skew = float(text.removeprefix("zipf:"))
        except ValueError:
            skew = -1.0
        if 0 <= skew <= 100:
            return Routing("zipf", skew, seed=seed)
    elif text.lower().endswith((".json", ".yaml", ".yml")):
        document = read_document(text, _MAX_BYTES)
        shares = document.data.get("shares") if isinstance(document.data, dict) else None
        numbers = shares if isinstance(shares, list) else []
        if not any(numbers) or not all(type(one) in (int, Fraction, float) and one >= 0 for one in numbers):
            rule = "it must be a list of numbers of at least 0, one for each expert, not all 0"
            raise InputError(document.problem(("shares",), rule, shares))
        return Routing("file", shares=tuple(float(one) for one in numbers), seed=seed)
    raise InputError(Problem("kbsim llm", f"it must be one of {', '.join(ROUTINGS)}", "routing", text))


def sent_rows(counts: Sequence[int], owned: Sequence[int]) -> list[list[int]]:
    """How many of the rows that each PE has go to each expert: `[PE][expert]`. `counts`: the rows of each expert.

    All rows are numbered from PE to PE. The choices of experts are dealt out to rows in turn, so that no row goes twice to one.
    """
    total = sum(owned)
    ends = list(accumulate(owned))
    found = [[0] * len(counts) for _ in owned]
    at = 0
    for expert, count in enumerate(counts):
        for start, end in ((at % total, at % total + count),) if total else ():
            for low, high in ((start, min(end, total)), (0, max(0, end - total))):
                for pe, last in enumerate(ends):
                    found[pe][expert] += max(0, min(high, last) - max(low, last - owned[pe]))
        at += count
    return found


EVEN = Routing()
_MAX_BYTES = 1 << 20
