"""The formats that a trace can be written in, and what time is in those that have a time of their own."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """What a trace can be written as; each is the module of that name here."""

    CHROME = "chrome"
    PERFETTO = "perfetto"
    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"


TIMED = (Format.CHROME, Format.PERFETTO)  #: those that have nanoseconds and no cycles


class TimeUnit(StrEnum):
    """What a viewer's nanosecond is."""

    NS = "ns"  #: a nanosecond
    CYCLES = "cycles"  #: a cycle, whatever the clock is: every cycle can be told from the next
