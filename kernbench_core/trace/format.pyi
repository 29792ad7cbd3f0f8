"""Records as lines of JSON, in batches."""

from typing import Any

from kernbench_core.trace.events import Trace

TEXT: int
VALUE: int
COLUMN: int
CYCLE: int
TEXT_OF_VALUE: int
TEXT_OF_COLUMN: int
ALWAYS: int
TOKEN_ENDS: int
NOTHING: int
NO_UNIT: int
UNIT_OF_ENTRY: int

class Format:
    """How records become lines: columns of entries, tables of texts, templates of each kind of record."""

    def __init__(
        self,
        columns: list[Any],
        tables: list[list[bytes]],
        kinds: list[Any],
        units: bytes,
        unit_column: int,
        token_column: int,
        tokens_remaining: list[int],
        token_start: list[int],
        first: int,
        last: int,
    ) -> None: ...
    @property
    def lines(self) -> int:
        """Written so far."""

    def text(
        self,
        trace: Trace,
        before: int,
        said: Any,
    ) -> bytes:
        """The next lines of records of cycles before that, b"" where there are no more; the records are then forgotten.

        `said` makes lines that are no templates, or None: `overlap(cycle, entry, with, job)`,
        `emitted(cycle, entry, value, name)`, `enqueued(cycle, row)`.
        """

    def extend(self, columns: list[Any], tables: list[list[bytes]]) -> None:
        """There are more rows, and more texts: the same columns and tables as at first, grown."""

    def fault(self, trace: Trace, rows: int, units: int, since: int, until: int) -> str | None:
        """What is wrong with records that a file brought back, of cycles from `since` to below `until`; None where nothing is.

        `rows`, `units`: how many entries and tracks there are.
        """

    def tokens(self) -> list[tuple[int, int]]:
        """`(left, start)` of each token group, to go on from."""

    def count(self, lines: int) -> None:
        """So many lines were written elsewhere."""
