"""`python -m tests.addition_search`: `python -m tests.search` of programs on machines with many additions at once.

The model, stepping and skipping agree with the references where memories, hosts, arbiters and timings of engines meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests import search


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print what was searched."""
    search.main(arguments, "python -m tests.addition_search", ["every_addition", "every_addition_of_pes"])


if __name__ == "__main__":
    main()
