"""The ring of records of a traced run."""

class Trace:
    """Records of a run at a level: 1 summary, 2 full, 3 access. `requesters` and `words`: most requests of a cycle, words of banks."""

    def __init__(self, level: int, requesters: int, words: int) -> None: ...
    def __len__(self) -> int: ...
    def dump(self) -> bytes:
        """The records that are still here, as bytes."""

    def load(self, records: bytes) -> None:
        """Put a `dump` of the same build back. ValueError where it is none."""

    def ends(self, after: int, before: int) -> list[int]:
        """Positions of the entries whose jobs ended at cycles above `after` and below `before`, of the records still here."""
