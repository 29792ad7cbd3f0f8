"""Names that pages put in code font, looked for in the sources."""

from __future__ import annotations

import re

from tests.meta.source import files


def words_of_the_code(*folders: str) -> set[str]:
    """Every word of the sources, of comments and texts too: keys of machines and opcodes are texts."""
    found = files(
        *(folders or ("kernbench", "kernbench_core", "configs")), suffixes=(".pyx", ".pxd", ".pxi", ".py", ".h", ".yaml")
    )
    return {word for path in found for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def is_there(name: str, words: set[str]) -> bool:
    """Whether all parts of a name (`Struct.field`) are words of the code."""
    return all(word in words for word in name.split("."))
