"""The manifest: a line an item, sorted by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.same.items import Found
from tests.same.runner import Ran, shown, text_of

FILE = Path(__file__).with_name("manifest.txt")
HEAD = """\
# What `make same` compares with; `python -m tests.same --write` makes it again.
# Name, sha256 (16 digits), exit codes, bytes, cycles.
"""
LINE = re.compile(r"(\S+) +([0-9a-f]{16})  exit (\S+)  (\d+) bytes  (\d+|-) cycles")

Manifest = dict[str, Found]


def read(file: Path = FILE) -> Manifest:
    """What was recorded; nothing where there is no file. Raises ValueError where a line is none."""
    manifest: Manifest = {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{file}:{number}: this is no line of a manifest: {line!r}; make it again with --write")
        name, sha256, codes, size, cycles = match.groups()
        manifest[name] = Found(sha256, codes, int(size), None if cycles == "-" else int(cycles))
    return manifest


def write(manifest: Mapping[str, Found], file: Path = FILE) -> None:
    width = max(map(len, manifest), default=0)
    lines = [f"{name:{width}}  {text_of(found)}\n" for name, found in sorted(manifest.items())]
    file.write_text(HEAD + "".join(lines), encoding="utf-8")


def differences(manifest: Mapping[str, Found], ran: Iterable[Ran]) -> list[str]:
    """What differs, an item each, with how to see it again."""
    told = []
    for item, found, _, wrong in ran:
        before = manifest.get(item.name)
        if wrong:
            says = wrong
        elif before is None:
            says = "is not in the manifest"
        elif found != before:
            says = f"now {text_of(found)}\n    was {text_of(before)}"
        else:
            continue
        told.append(f"{item.name}\n    {says}\n    {shown(item)}")
    return told
