"""Who must wait for whom, from the bytes that jobs read and write: one address space, in program order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Segment:
    """Bytes with one history."""

    end: int
    writer: int | None  #: id of the job that wrote them last; None: nobody yet
    readers: list[int] = field(default_factory=list)  #: ids of the jobs that have read them since


class Hazards:
    """For every byte the last writer and the readers since.

    A reader waits for the writer; a writer waits for the readers since, and where there are none for the writer before
    it. Readers have waited for their writer themselves, so nothing more is needed. Ranges are `[start, end)`.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []  # ascending; segments do not overlap
        self._segments: list[_Segment] = []

    def before_read(self, start: int, end: int) -> set[int]:
        """Ids that a job reading the range waits for."""
        return {segment.writer for segment in self._touching(start, end) if segment.writer is not None}

    def before_write(self, start: int, end: int) -> set[int]:
        """Ids that a job writing the range waits for."""
        waits: set[int] = set()
        for segment in self._touching(start, end):
            if segment.readers:
                waits.update(segment.readers)
            elif segment.writer is not None:
                waits.add(segment.writer)
        return waits

    def read(self, start: int, end: int, job: int) -> None:
        """`job` reads the range."""
        first, last = self._cut_out(start, end)
        starts: list[int] = []
        segments: list[_Segment] = []
        at = start
        for i in range(first, last):
            if self._starts[i] > at:  # bytes that nobody has touched yet get a history of their own
                starts.append(at)
                segments.append(_Segment(self._starts[i], None))
            starts.append(self._starts[i])
            segments.append(self._segments[i])
            at = self._segments[i].end
        if at < end:
            starts.append(at)
            segments.append(_Segment(end, None))
        for segment in segments:
            segment.readers.append(job)
        self._starts[first:last] = starts
        self._segments[first:last] = segments

    def write(self, start: int, end: int, job: int) -> None:
        """`job` writes the range."""
        first, last = self._cut_out(start, end)
        self._starts[first:last] = [start]
        self._segments[first:last] = [_Segment(end, job)]

    def join(self, start: int, end: int, job: int) -> None:
        """`job` has waited for every writer of the range: it stands for them from now on."""
        first, last = self._cut_out(start, end)
        for segment in self._segments[first:last]:
            segment.writer = job

    def _touching(self, start: int, end: int) -> list[_Segment]:
        first = bisect_right(self._starts, start)
        if first and self._segments[first - 1].end > start:
            first -= 1
        return self._segments[first : bisect_left(self._starts, end)]

    def _cut_out(self, start: int, end: int) -> tuple[int, int]:
        """Splits segments at both ends of the range; indices of those inside it."""
        self._cut(start)
        self._cut(end)
        return bisect_left(self._starts, start), bisect_left(self._starts, end)

    def _cut(self, at: int) -> None:
        i = bisect_left(self._starts, at) - 1
        if i >= 0 and self._segments[i].end > at:
            segment = self._segments[i]
            self._starts.insert(i + 1, at)
            self._segments.insert(i + 1, _Segment(segment.end, segment.writer, list(segment.readers)))
            segment.end = at
