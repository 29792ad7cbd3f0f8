"""The rows of a step: new tokens of sequences, each after its own context, cut into blocks that fit the scratchpad."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernbench.common.errors import InputError, Problem

QUERY_TOKENS = 128  #: queries that attend together: the square of their own scores is computed in full


@dataclass(frozen=True, slots=True, order=True)
class Sequences:
    """`count` sequences with `tokens` new tokens each, after `context` earlier ones.

    >>> import kernbench as kb
    >>> kb.Sequences(tokens=1, context=512, count=8)
    Sequences(tokens=1, context=512, count=8)
    """

    tokens: int
    context: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        for name, least in (("tokens", 1), ("context", 0), ("count", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise InputError(Problem("batch", f"it must be an integer of at least {least}", name, value))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one sequence in a block: `rows` new tokens from row `row` of the block on, after `cached` tokens."""

    sequence: int
    row: int
    rows: int
    cached: int
    last: bool  #: the sequence has no further rows in this step


@dataclass(frozen=True, slots=True)
class Batch:
    """A step: prefill chunks and decodes of different contexts side by side."""

    groups: tuple[Sequences, ...]

    @classmethod
    def of(cls, groups: Iterable[Sequences]) -> Batch:
        """InputError if there are none."""
        found = tuple(groups)
        if not found:
            raise InputError(Problem("batch", "it must have at least one sequence"))
        return cls(found)

    @property
    def tokens(self) -> int:
        """New tokens of all sequences."""
        return sum(group.tokens * group.count for group in self.groups)

    @property
    def sequences(self) -> int:
        """How many sequences take part."""
        return sum(group.count for group in self.groups)

    @property
    def positions(self) -> int:
        """[token] of the longest sequence after the step."""
        return max(group.tokens + group.context for group in self.groups)

    def blocks(self, most: int) -> list[list[Piece]]:
        """The rows in blocks of at most `most` rows, near even."""
        total = self.tokens
        size = -(-total // -(-total // most))
        found: list[list[Piece]] = [[]]
        used = number = 0
        for group in self.groups:
            for _ in range(group.count):
                done = 0
                while done < group.tokens:
                    if used == size:
                        found.append([])
                        used = 0
                    rows = min(size - used, group.tokens - done)
                    last = done + rows == group.tokens
                    found[-1].append(Piece(number, used, rows, group.context + done, last))
                    done, used = done + rows, used + rows
                number += 1
        return found


def first_key(window: int, chunk: int, position: int) -> int:
    """The first token that a token at this position attends to."""
    if window:
        return max(0, position - window + 1)
    return position // chunk * chunk if chunk else 0
