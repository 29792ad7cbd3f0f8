"""`python -m tests.cache_search`: `python -m tests.search` of programs on machines with a last-level cache."""

from __future__ import annotations

from collections.abc import Sequence

from tests import search


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print what was searched."""
    search.main(arguments, "python -m tests.cache_search", ["caches", "cached_rows", "cached_pes"])


if __name__ == "__main__":
    main()
