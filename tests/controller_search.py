"""`python -m tests.controller_search`: `python -m tests.search` of programs on machines with `row_buffer_v2`.

Every one of them must come to its end: a run that is stopped at max_cycles hangs.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests import search


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print what was searched."""
    search.main(arguments, "python -m tests.controller_search", ["controllers", "pressed_controllers", "controllers_of_pes"])


if __name__ == "__main__":
    main()
