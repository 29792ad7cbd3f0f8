"""The user's cache directory, and a cache of parsed texts in it, by the content of the text.

Importing PyYAML or tomllib takes longer than a short run; a text in the cache needs neither module.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from kernbench.common.errors import InputError
from kernbench.common.files import placed, read_bounded
from kernbench.version import VERSION

LARGEST = 1 << 20  # [B] largest text that is cached
LARGEST_DATA = 16 * LARGEST  # [B] largest data file that is read
MAX_KEPT = 2000  #: cached texts; the oldest are removed first
SUFFIX = ".data"
_FRACTION, _CHECKSUM = 1, 4


def cache_folder(name: str) -> Path | None:
    """The directory of one kind of cached files; None without a cache."""
    named = os.environ.get("KERNBENCH_CACHE", "")
    if named == "off":
        return None
    home = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kernbench"
    try:
        return home.expanduser() / name
    except RuntimeError:  # no home directory
        return None


def kept(reader: str, text: str, parse: Callable[[], Any]) -> Any:
    """The result of `parse` for a text, from the cache or computed now. Errors of `parse` are not cached.

    `reader`: the file of the parser; the data of each parser and of each version of it are cached separately.
    """
    home = cache_folder("texts") if len(text) <= LARGEST else None
    if home is None:
        return parse()
    key = _key(reader, text)
    place = home / f"{zlib.crc32(key):08x}-{len(key)}{SUFFIX}"
    try:
        return _unpacked(read_bounded(place, LARGEST_DATA), key)
    except (InputError, ValueError):  # missing, not a file, damaged, or of another text
        pass
    data = parse()
    if os.path.lexists(place) and not place.is_file():  # reading a pipe would wait for a writer
        return data
    try:
        packed = _packed(key, data)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with placed(place) as file:
            file.write(packed)
        _make_room(home)
    except (OSError, ValueError, OverflowError):  # a full disk, a cache of another user, an integer above 64 bits
        pass
    return data


def _key(reader: str, text: str) -> bytes:
    status = os.stat(reader)
    identity = f"{VERSION} {os.path.basename(reader)} {status.st_size} {status.st_mtime_ns}\0{text}"
    return identity.encode("utf-8", "surrogatepass")


def _packed(key: bytes, data: Any) -> bytes:
    """The key and the data, with a checksum in front, by which damaged files are detected. The checksum is a CRC, because the
    import of `hashlib` takes 3 ms."""
    content = msgspec.msgpack.encode((key, data), enc_hook=_extended)
    return _checksum(content) + content


def _unpacked(packed: bytes, key: bytes) -> Any:
    """The data of a file; ValueError for a damaged file, or for the file of another key with the same name."""
    content = packed[_CHECKSUM:]
    if packed[:_CHECKSUM] != _checksum(content):
        raise ValueError("it is damaged")
    found, data = msgspec.msgpack.decode(content, ext_hook=_restored)
    if found != key:
        raise ValueError("it is of another text")
    return data


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM, "big")


def _extended(value: Any) -> msgspec.msgpack.Ext:
    if not isinstance(value, Fraction):
        raise ValueError(f"data of type {type(value).__name__} is not kept")
    return msgspec.msgpack.Ext(_FRACTION, f"{value.numerator}/{value.denominator}".encode())


def _restored(code: int, content: memoryview) -> Fraction:
    numerator, _, denominator = bytes(content).partition(b"/")
    return Fraction(int(numerator), int(denominator))


def _make_room(home: Path) -> None:
    """Delete the oldest files until MAX_KEPT are left."""
    files = list(home.glob(f"*{SUFFIX}"))
    if len(files) > MAX_KEPT:
        for path in sorted(files, key=lambda one: one.stat().st_mtime_ns)[: len(files) - MAX_KEPT]:
            path.unlink(missing_ok=True)
