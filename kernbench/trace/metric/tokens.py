"""The tokens of a language model in a trace: the positions of the prompt, the positions that were decoded, and the time of
each."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise

from kernbench.trace.metric.figures import Spread, Tokens


class TokenSums:
    """The tokens of a trace.

    The commands with the same `seq_len` are one pass through the model. A pass is the prompt's in two cases: one of its
    commands has an earlier position than the newest position, `seq_len - 1`; or there is no earlier position, because nothing
    can be decoded before position 0.
    """

    def __init__(self) -> None:
        self._lowest: dict[int, int] = {}  # by seq_len of a pass: the lowest position of its commands
        self._positions = array("q")  # token_idx of each TOKEN event in file order; the next two arrays have the same order
        self._ends = array("q")  # [cycle]
        self._latencies = array("q")  # [cycle]

    def enqueue(self, token_idx: int | None, seq_len: int | None) -> None:
        """Enter a command that was queued."""
        if token_idx is not None and seq_len is not None:
            self._lowest[seq_len] = min(token_idx, self._lowest.get(seq_len, token_idx))

    def end(self, token_idx: int, t_cycle: int, latency: int) -> None:
        """The last command of a position has ended."""
        self._positions.append(token_idx)
        self._ends.append(t_cycle)
        self._latencies.append(latency)

    def figures(self, completions: dict[str, int]) -> Tokens:
        """The figures; `completions` is the number of TOKEN_COMPLETE events by status."""
        spans = self._prompt_spans()
        of_prompt = [_inside(spans, position) for position in self._positions]
        decoded = [k for k, inside in enumerate(of_prompt) if not inside]
        ends = [self._ends[k] for k in decoded]
        newest = max((end - 1 for _, end in spans), default=None)
        first = next((end for at, end in zip(self._positions, self._ends, strict=True) if at == newest), None)
        before = [first] if first is not None else []
        since = first if first is not None else ends[0] - self._latencies[decoded[0]] if decoded else 0
        return Tokens(
            count=len(decoded),
            prompt=sum(of_prompt),
            ttft=first,
            tpot=Fraction(ends[-1] - since, len(ends)) if ends else None,
            latency=Spread.of(sorted(self._latencies[k] for k in decoded)),
            gap=Spread.of(sorted(after - earlier for earlier, after in pairwise(before + ends))),
            completions=completions,
        )

    def _prompt_spans(self) -> list[tuple[int, int]]:
        """The positions `[from, to)` of the prompt's passes in ascending order; overlapping or adjacent ranges are joined."""
        spans: list[tuple[int, int]] = []
        for low, end in sorted((low, length) for length, low in self._lowest.items() if low < length - 1 or length == 1):
            if spans and low <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(spans[-1][1], end)
            else:
                spans.append((low, end))
        return spans


def _inside(spans: list[tuple[int, int]], position: int) -> bool:
    k = bisect_right(spans, position, key=lambda span: span[0]) - 1
    return k >= 0 and position < spans[k][1]
