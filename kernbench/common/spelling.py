"""Suggestions for misspelt names: the nearest known name, or the nearest file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

MAX_FILES = 2000  #: most names of a folder that are compared
MAX_FOLDERS = 50  #: most folders beside a missing file that are searched
#: Names of element types in other programs, and the names in kernbench.
TYPE_NAMES = {"half": "f16", "float": "f32", "bfloat16": "bf16", "int": "i32", "long": "i64", "char": "i8", "fp8": "f8e4m3"}
_LONG = 60  # most characters of a name that are compared


def nearest(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that is nearest to `name`; empty if no name is near.

    Case, `-`, `_`, `.` and blanks are ignored. A known name is also near if it is a part of `name`, for example `a100` for
    the name `nvidia_a100`.
    """
    if not isinstance(name, str):
        return ""
    names: dict[str, str] = {}
    lower: dict[str, str] = {}
    for one in known:
        names.setdefault(_plain(one), one)
        lower.setdefault(one.lower(), one)
    import difflib  # imported here, because only misspelt names need it

    wanted = _plain(name)
    begin = [one for one in names if one.startswith(wanted)] if len(wanted) > 5 else []
    found = [wanted] if wanted in names else sorted(begin, key=lambda one: (len(one), one))[:1]
    if not found and (near := difflib.get_close_matches(name[:_LONG].lower(), lower, n=1, cutoff=cutoff)):
        return lower[near[0]]
    found = found or difflib.get_close_matches(wanted, names, n=1, cutoff=cutoff)
    if not found and len(wanted) > 3:
        parts = [one for one in names if len(one) > 3 and one in wanted]
        wholes = [one for one in names if wanted in one]
        found = sorted(parts, key=lambda one: (-len(one), one))[:1] or sorted(wholes, key=lambda one: (len(one), one))[:1]
    return names[found[0]] if found else ""


def meant(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`did you mean dram?`, or an empty text."""
    near = nearest(name, known, cutoff)
    return f"did you mean {near}?" if near else ""


def type_meant(text: str, types: Collection[str]) -> str:
    """`did you mean f16?` for `fp16` or `half`; empty if the text is not another program's name of one of the types.

    >>> type_meant("fp16", ["f32", "f16"])
    'did you mean f16?'
    """
    plain = text.lower().replace("float", "f").replace("uint", "u").replace("int", "i").replace("fp", "f")
    name = TYPE_NAMES.get(text.lower(), plain)
    return f"did you mean {name}?" if name in types else ""


def _plain(name: str) -> str:
    return "".join(c for c in name[:_LONG].lower() if c not in "-_. ")


def file_meant(path: str, endings: tuple[str, ...] = ()) -> str:
    """The file that a path of a missing file probably means, or empty: a file of similar name in the same folder, or a file of
    the same name in a folder beside or above it. `endings`: the allowed endings of the suggested file; by default the ending of
    the path.
    """
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    allowed = endings or ((ending,) if ending else ())
    near = nearest(stem, {os.path.splitext(one)[0]: one for one in _names(folder, allowed)}, cutoff=0.75)
    if near:
        beside = [one for one in _names(folder, allowed) if os.path.splitext(one)[0] == near]
        return os.path.join(folder, min(beside, key=lambda one: (not one.endswith(ending), one)))
    if not endings and ending:  # run.json, although run.jsonl exists
        beside = [one for one in _names(folder, ()) if os.path.splitext(one)[0] == stem]
        if beside:
            return os.path.join(folder, beside[0])
    places = [os.path.join(folder, one) for one in _folders(folder)[:MAX_FOLDERS]]
    places.append(os.path.join(folder, os.pardir))
    return next((os.path.join(place, name) for place in places if ending and os.path.isfile(os.path.join(place, name))), "")


def _names(folder: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a folder with one of these endings; without endings, all files."""
    try:
        with os.scandir(folder or os.curdir) as entries:
            files = [one.name for one, _ in zip(entries, range(MAX_FILES), strict=False) if one.is_file()]
    except (OSError, ValueError):
        return []
    return sorted(one for one in files if not endings or one.lower().endswith(endings))


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder or os.curdir) as entries:
            some = [one for one, _ in zip(entries, range(MAX_FILES), strict=False) if not one.name.startswith(".")]
            return sorted(one.name for one in some if one.is_dir())
    except (OSError, ValueError):
        return []
