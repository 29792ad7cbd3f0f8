"""The text of a trace file, piece by piece: plain, gzip or zstd, which are recognised by their first bytes."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import near_file, not_read
from kernbench.trace.writer import zstd_module

#: [B] of text held at once, and of packed data read at once. A larger piece would have new pages of memory each time.
SIZE = 1 << 17
MAX_LINE = 1 << 26  # [B] a longer line is not an event
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class CutError(Exception):
    """The text ends here; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _CorruptError(Exception):
    """Packed data cannot be unpacked past the piece at `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def blocks(path: str) -> Iterator[bytes]:
    """Whole lines of a trace's text, many at once; the last block may lack its line feed.

    Whatever can be unpacked comes out before CutError is raised; InputError if the file cannot be opened.
    """
    rest: list[bytes] = []
    held = 0
    cut: CutError | None = None
    try:
        for piece in _text(path):
            end = piece.rfind(b"\n") + 1
            if end:
                yield b"".join((*rest, piece[:end]))
                rest, held = [], 0
            if end < len(piece):
                rest.append(piece[end:])
                held += len(piece) - end
            if held > MAX_LINE:
                raise CutError(f"a line is longer than {MAX_LINE >> 20} MiB")
    except CutError as error:
        cut = error
    if rest and held <= MAX_LINE:
        yield b"".join(rest)
    if cut is not None:
        raise cut


def _text(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            kind = next((name for magic, name in _MAGIC.items() if file.peek(4).startswith(magic)), "")
            if not kind:
                while piece := file.read(SIZE):
                    yield piece
                return
        yield from _unpacked(path, _STARTS[kind], kind)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        near = (near_file(path) or _run_meant(path)) if isinstance(error, FileNotFoundError) else ""
        raise InputError(Problem(path, not_read(error), remedy=near)) from None


def _run_meant(path: str) -> str:
    """How to get a trace of a target that was named instead of a trace file; empty for a name that looks like a file name."""
    if "." in path or "/" in path:
        return ""
    return f"to record a trace: kbsim run {path} --trace run.jsonl --trace-level full"


def _unpacked(path: str, start: Callable[[], Any], kind: str) -> Iterator[bytes]:
    """All data that can be unpacked. A piece that cannot be unpacked as a whole is unpacked byte by byte, up to the error."""
    done = 0
    try:
        for text in _unpack(path, start, kind, None):
            done += len(text)
            yield text
        return
    except _CorruptError as error:
        offset = error.offset
    try:
        for text in _unpack(path, start, kind, offset):
            done -= len(text)
            if done < 0:
                yield text[done:]
                done = 0
    except _CorruptError as error:
        offset = error.offset
    raise CutError(f"the {kind} data is corrupt at its byte {offset:,}")


def _unpack(path: str, start: Callable[[], Any], kind: str, bytewise_from: int | None) -> Iterator[bytes]:
    offset = 0
    unpacker, feed = start()
    fed = False
    with open(path, "rb") as file:
        while data := file.read(_step(offset, bytewise_from)):
            length = len(data)
            try:
                while data:
                    yield from feed(unpacker, data)
                    fed, data = True, b""
                    if unpacker.eof:
                        data = unpacker.unused_data.lstrip(b"\0")
                        unpacker, feed = start()
                        fed = False
            except (zlib.error, _zstd_error()) as error:
                raise _CorruptError(offset) from error
            offset += length
    if fed:
        raise CutError(f"the {kind} data is cut off")


def _step(offset: int, bytewise_from: int | None) -> int:
    if bytewise_from is None:
        return SIZE
    return 1 if offset >= bytewise_from else min(SIZE, bytewise_from - offset)


def _gzip() -> tuple[Any, Callable[[Any, bytes], Iterator[bytes]]]:
    return zlib.decompressobj(31), _feed_zlib


def _feed_zlib(unpacker: Any, data: bytes) -> Iterator[bytes]:
    while True:
        text = unpacker.decompress(data, SIZE)
        if text:
            yield text
        data = unpacker.unconsumed_tail
        if unpacker.eof or (not data and len(text) < SIZE):  # past a member's end the tail is not for this unpacker
            return


def _zstd() -> tuple[Any, Callable[[Any, bytes], Iterator[bytes]]]:
    return zstd_module().ZstdDecompressor(), _feed_zstd


def _feed_zstd(unpacker: Any, data: bytes) -> Iterator[bytes]:
    while True:
        text = unpacker.decompress(data, SIZE)
        if text:
            yield text
        data = b""
        if unpacker.needs_input or unpacker.eof:
            return


def _zstd_error() -> type[Exception]:
    """The exceptions of zstd, if it is available."""
    try:
        error: type[Exception] = zstd_module().ZstdError
    except InputError:
        return zlib.error
    return error


_STARTS: dict[str, Callable[[], Any]] = {"gzip": _gzip, "zstd": _zstd}


def first_line(path: str) -> bytes:
    """The first line of the text of a trace, with its line feed; empty if the text is empty.

    InputError if the file cannot be opened, or is a pipe.
    """
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            rule = "this is a pipe, but a trace is read more than once"
            raise InputError(Problem(path, rule, remedy="write it to a file first"))
    except (OSError, ValueError):  # an invalid name is reported when the file is opened
        pass
    try:
        for block in blocks(path):
            return block[: block.find(b"\n") + 1] or block
    except CutError:
        return b""
    return b""
