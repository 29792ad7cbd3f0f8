"""Reads the records of a trace file in order and in small batches, up to the end of the file or the first incomplete record."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from itertools import chain
from typing import Any

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_rational
from kernbench.config.file_kinds import check_file
from kernbench.trace.events import ALL_TYPES, RECORDS, Record, some_types
from kernbench.trace.files import CutError, blocks, first_line
from kernbench.trace.schema import BY_NAME, VERSION

NO_END = "the file ends without TRACE_END"
_META, _END = BY_NAME["TRACE_META"], BY_NAME["TRACE_END"]
_ENDS = b'"TRACE_'  # a block of lines that has it may hold the last one
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_AT = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_LONGEST = 160  # characters of a decoder's message: it quotes the file

Misfit = Callable[[int, str], None]  #: called for a line that is JSON but not a valid record, with its number and the reason
#: Reads lines of a block from an offset on, by the number of the first: the offset after them, and how many they are.
Plain = Callable[[bytes, int, int], tuple[int, int]]
Numbered = tuple[Sequence[int], list[Record]]  #: numbers of lines, and their records


@dataclass(frozen=True, slots=True)
class Break:
    """The position at which a file is truncated or damaged."""

    line: int  #: counted from 1
    offset: int  #: [B] of that line's first byte, in the text as it is unpacked
    reason: str

    def __str__(self) -> str:
        return f"line {self.line:,} (byte {self.offset:,}): {self.reason}"


class Trace:
    """A trace file. Iterating reads it from the beginning, each time: the records between its first and its last line.

    `end`, `broken` and `skipped` have the values of the last complete iteration.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        line = first_line(self.path)
        #: whether the file has a newer minor version than this package; unknown events and fields are skipped
        self.newer = False
        self.meta: Record = self._meta(line)
        self.end: Record | None = None  #: TRACE_END; None if the file broke off before it
        self.broken: Break | None = None  #: None if the file is whole
        self.skipped = 0  #: events of types that only newer versions know
        self._first = len(line)

    @property
    def freq_ghz(self) -> Fraction:
        """The clock of the first line. InputError if it is not above 0."""
        return positive(self.meta.freq_ghz, self.path, "freq_ghz")

    def __iter__(self) -> Iterator[Record]:
        return chain.from_iterable(self.batches())

    def batches(self, only: Mapping[str, Iterable[str]] | None = None) -> Iterator[list[Record]]:
        """The same records in lists. `only`: fields to read, by event type; other types come without any, much faster."""
        types = ALL_TYPES
        if only is not None:
            types = some_types({**only, "TRACE_END": RECORDS["TRACE_END"].__struct_fields__})
        for _, records in self.numbered(types):
            yield records

    def numbered(self, types: Any = ALL_TYPES, misfit: Misfit | None = None) -> Iterator[Numbered]:
        """Records in lists, with their lines' numbers. Without `misfit`, a line that does not fit `types` is a break."""
        self.end, self.broken, self.skipped = None, None, 0
        reading = _Reading(self, msgspec.json.Decoder(types), misfit, 2, self._first)
        skip = self._first
        try:
            for block in blocks(self.path):
                lines, records = reading.block(block[skip:] if skip else block)
                skip = 0
                if records:
                    yield lines, records
                if self.broken is not None and block.endswith(b"\n"):
                    return
        except CutError as error:
            self.broken = Break(reading.line, reading.offset, error.reason)
        if self.end is None and self.broken is None:
            reading.stop(NO_END)

    def pass_over(self, plain: Plain, other: Callable[[Record, int], None], types: Any, misfit: Misfit) -> int:
        """Read all lines one after the other, and return how many were misfits.

        `plain` reads as many lines as it can; the next line is decoded by msgspec and handed to `other`, with its number.
        """
        self.end, self.broken, self.skipped = None, None, 0
        misfits = 0

        def counted(line: int, why: str) -> None:
            nonlocal misfits
            misfits += 1
            misfit(line, why)

        reading = _Reading(self, msgspec.json.Decoder(types), counted, 2, self._first)
        at = self._first
        try:
            for block in blocks(self.path):
                while at < len(block) and self.broken is None:
                    at = reading.pass_on(block, at, plain, other)
                at = 0
                if self.broken is not None and block.endswith(b"\n"):
                    return misfits
        except CutError as error:
            self.broken = Break(reading.line, reading.offset, error.reason)
        if self.end is None and self.broken is None:
            reading.stop(NO_END)
        return misfits

    def _meta(self, line: bytes) -> Record:
        try:
            head = msgspec.json.decode(line, type=_Head)
        except _UNREADABLE:
            head = _Head("")
        if head.event_type != "TRACE_META":
            rule = "its first line must be TRACE_META" if line else "it is empty, or its first line cannot be unpacked"
            check_file(os.fspath(self.path), "trace")
            raise InputError(Problem(self.path, rule, remedy="is it a trace?"))
        ours, theirs = _version(VERSION), _version(head.version or "")
        if theirs[0] != ours[0]:
            remedy = "use a newer kernbench" if theirs > ours else ""
            raise InputError(
                Problem(f"{self.path}:1", f"this kernbench reads {ours[0]}.x", "version", head.version, remedy)
            )
        self.newer = theirs > ours
        try:
            meta: Record = msgspec.json.decode(line, type=RECORDS["TRACE_META"])
        except _UNREADABLE as error:
            raise InputError(Problem(f"{self.path}:1", f"TRACE_META does not fit the schema: {why(error)}")) from None
        return meta


def positive(value: Any, path: str, field_name: str) -> Fraction:
    """A number of the first line that must be above 0; InputError if it is not."""
    try:
        number = parse_rational(value)
    except ValueError:
        number = Fraction(0)
    if number <= 0:
        raise InputError(Problem(f"{path}:1", "it must be a number above 0", field_name, value))
    return number


class _Head(msgspec.Struct):
    """The fields of the first line in every version."""

    event_type: str
    version: str | None = None


class _Tag(msgspec.Struct):
    event_type: str


@dataclass(slots=True)
class _Reading:
    """One pass over a file: its position, and the next lines."""

    trace: Trace
    decoder: msgspec.json.Decoder[Any]
    misfit: Misfit | None
    line: int  #: number of the next line
    offset: int  #: [B] of its first byte

    def block(self, block: bytes) -> Numbered:
        """The records of some lines: decoded at once, and singly where that fails or the last line may be among them."""
        count = block.count(b"\n")
        if _ENDS in block or not block.endswith(b"\n"):
            return self._singly(block)
        try:
            records = self.decoder.decode_lines(block)
        except _UNREADABLE:
            return self._singly(block)
        if len(records) != count:  # a line that is empty, or has two objects
            return self._singly(block)
        lines = range(self.line, self.line + count)
        self.line += count
        self.offset += len(block)
        return lines, records

    def _singly(self, block: bytes) -> Numbered:
        lines: list[int] = []
        records: list[Record] = []
        for text in BytesIO(block):
            record = self._record(text)
            if self.trace.broken is not None:
                break
            if record is not None:
                lines.append(self.line)
                records.append(record)
            self.line += 1
            self.offset += len(text)
        return lines, records

    def pass_on(self, block: bytes, at: int, plain: Plain, other: Callable[[Record, int], None]) -> int:
        """Read plain lines of a block from an offset on, and a line that is not plain; the offset after them."""
        if self.trace.end is None:
            after, count = plain(block, at, self.line)
            self.line += count
            self.offset += after - at
            at = after
            if at == len(block):
                return at
        text = block[at : block.find(b"\n", at) + 1 or len(block)]
        record = self._record(text)
        if self.trace.broken is None:
            if record is not None:
                other(record, self.line)
            self.line += 1
            self.offset += len(text)
        return at + len(text)

    def _record(self, text: bytes) -> Record | None:
        """The record of one line; None at the end, and for a line that is damaged or skipped."""
        if self.trace.end is not None:
            self.stop("there is more after TRACE_END")
            return None
        try:
            record: Record = self.decoder.decode(text)
        except msgspec.ValidationError as error:
            self._unfit(text, error)
        except _UNREADABLE as error:
            self._garbled(text, error)
        else:
            if record.event is _END:
                self.trace.end = record
            elif record.event is _META:
                self.stop("a second TRACE_META")
            else:
                return record
        return None

    def _unfit(self, text: bytes, error: Exception) -> None:
        """A line that does not match the types; fields and events of a newer version are skipped."""
        try:
            msgspec.json.decode(text)
            name = msgspec.json.decode(text, type=_Tag).event_type
        except msgspec.ValidationError:
            name = ""
        except _UNREADABLE as worse:
            self._garbled(text, worse)
            return
        if name and name not in RECORDS and self.trace.newer:
            self.trace.skipped += 1
            return
        unknown = name and name not in RECORDS
        reason = f"version {VERSION} has no event type {_printable(name)}" if unknown else why(error)
        if self.misfit is None:
            self.stop(reason)
        else:
            self.misfit(self.line, reason)

    def _garbled(self, text: bytes, error: Exception) -> None:
        if not text.endswith(b"\n"):
            self.stop("the line is cut off")
        else:
            self.stop(why(error) if text.strip() else "the line is empty")

    def stop(self, reason: str) -> None:
        """The file can be read no further than to here."""
        self.trace.broken = Break(self.line, self.offset, reason)


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """A trace file (`.jsonl`, or packed as `.gz` or `.zst`), its first line read.

    InputError if it cannot be opened, is no trace, or is of another major version.
    """
    return Trace(path)


def _version(text: str) -> tuple[int, int]:
    """Major and minor version; (-1, -1) for any other text."""
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", text)
    return (-1, -1) if match is None else (int(match[1]), int(match[2]))


def why(error: Exception) -> str:
    """The message of a decoder: `t_cycle: Expected int, got str`."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError) or str(error) == "Invalid UTF-8 encoded string":  # msgspec before 0.23, and since
        return "it is not UTF-8"
    if not isinstance(error, msgspec.ValidationError):
        return f"this is not valid JSON: {_printable(str(error).removeprefix('JSON is malformed: '))}"
    text = str(error)
    match = _AT.fullmatch(text)
    if match is not None:
        text = f"{match[2]}: {match[1]}" if match[2] else match[1]
    return _printable(text.replace("`", ""))


def _printable(text: str) -> str:
    """A text from the file, shortened to one line for a message."""
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[:_LONGEST])
    return text if len(text) < _LONGEST else text[: _LONGEST - 3] + "..."
