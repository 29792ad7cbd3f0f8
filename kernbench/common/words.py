"""Numbers of things, as people say them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number of things: `1 job`, `1,240 jobs`, `2 entries`; of a noun with words before it too: `1 more engine`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"
