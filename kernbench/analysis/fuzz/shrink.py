"""Shrinks a finding to the fewest delays that still show it, by delta debugging."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kernbench.sim_engine.perturbation import LATENCY, START, Key, Ranges

Shows = Callable[[Mapping[Key, int]], bool]
FEW = 3  #: number of delays that a finding should have at most


def fewest(draws: Mapping[Key, int], shows: Shows, ranges: Ranges) -> dict[Key, int]:
    """The fewest of these draws that still show a finding: no draw of the result can be left out.

    If more than three draws are left, delays are increased to the longest allowed delay, because one long delay can replace
    several short delays.
    """
    left = _minimal(_coarse(dict(draws), shows), shows)
    if len(left) > FEW:
        for longer in _longer(left, ranges):
            if shows(longer):
                left = min(left, _minimal(longer, shows), key=len)
                if len(left) <= FEW:
                    break
    return _shortest(left, shows)


def _longer(draws: Mapping[Key, int], ranges: Ranges) -> Iterator[dict[Key, int]]:
    """Increase one delay in cycles to the longest allowed delay and keep the others; at last increase all delays."""
    delays = [key for key in draws if key[0] in (LATENCY, START)]
    others = {key: value for key, value in draws.items() if key not in delays}
    for key in delays:
        yield {**others, key: _most(key, draws[key], ranges)}
    yield {key: _most(key, value, ranges) for key, value in draws.items()}


def _coarse(draws: dict[Key, int], shows: Shows) -> dict[Key, int]:
    """Try whole kinds of draws, then whole names, because most findings need only one kind."""
    for length in (1, 2):
        groups = list(dict.fromkeys(key[:length] for key in draws))
        if len(groups) > 1:
            alone = ({key: value for key, value in draws.items() if key[:length] == one} for one in groups)
            draws = next((one for one in alone if shows(one)), draws)
    return draws


def _minimal(draws: dict[Key, int], shows: Shows) -> dict[Key, int]:
    """The algorithm `ddmin` of Zeller and Hildebrandt."""
    keys, parts = list(draws), 2

    def showing(some: Sequence[Key]) -> bool:
        return shows({key: draws[key] for key in some})

    while len(keys) >= 2:
        pieces = [keys[k * len(keys) // parts : (k + 1) * len(keys) // parts] for k in range(parts)]
        smaller = next((piece for piece in pieces if showing(piece)), None)
        if smaller is not None:
            keys, parts = smaller, 2
            continue
        rests = ([key for key in keys if key not in set(piece)] for piece in pieces)
        rest = next((one for one in rests if showing(one)), None) if parts > 2 else None
        if rest is not None:
            keys, parts = rest, max(parts - 1, 2)
            continue
        if parts == len(keys):
            break
        parts = min(len(keys), 2 * parts)
    if len(keys) == 1 and showing(()):
        keys = []
    return {key: draws[key] for key in keys}


def _most(key: Key, value: int, ranges: Ranges) -> int:
    return {LATENCY: ranges.latency, START: ranges.start}.get(key[0], value)


def _shortest(draws: dict[Key, int], shows: Shows) -> dict[Key, int]:
    """Halve each delay in cycles as long as the finding still shows."""
    for key in draws:
        while key[0] in (LATENCY, START) and draws[key] > 1 and shows({**draws, key: draws[key] // 2}):
            draws = {**draws, key: draws[key] // 2}
    return draws
