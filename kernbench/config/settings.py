"""The user's settings: `$XDG_CONFIG_HOME/kernbench/settings.yaml`, else `~/.config/kernbench/settings.yaml`.

    allow_code: [~/parts, /opt/plugins/fast.py]

They are read only when a file names code that is neither of kernbench nor of an installed plug-in.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.config.document import Document, read_document
from kernbench.config.places import KEY, PathLike

SETTINGS_BYTES = 64 << 10  # [B] of the file at most
KEYS = ("allow_code",)


class Settings(msgspec.Struct, frozen=True):
    """The permanent settings of a user."""

    allow_code: tuple[str, ...] = ()  #: directories and files, with links resolved, whose modules files may name


def settings_file() -> Path | None:
    """The path of the settings; None for a user without a home directory."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        home = Path(named) if os.path.isabs(named) else Path("~/.config").expanduser()
    except RuntimeError:  # no home directory
        return None
    return home / "kernbench" / "settings.yaml"


def read_settings() -> Settings:
    """The settings; empty if the file does not exist. InputError, with file and line, if they are not valid."""
    file = settings_file()
    if file is None or not os.path.lexists(file):
        return Settings()
    if not os.path.isfile(file):
        raise InputError(Problem(str(file), "it must be a settings file"))
    document = read_document(file, SETTINGS_BYTES)
    extra = [key for key in document.data if key not in KEYS]
    if extra:
        rule = f"there is no such key; the keys at this level are {', '.join(KEYS)}"
        raise InputError(document.problem((extra[0], KEY), rule))
    given = document.data.get("allow_code", [])
    if not isinstance(given, list):
        raise InputError(document.problem(("allow_code",), "it must be a list of paths", given))
    return Settings(tuple(_path(document, ("allow_code", i), path) for i, path in enumerate(given)))


def _path(document: Document, at: PathLike, given: Any) -> str:
    """A path without links; InputError for a relative path, and for a path that does not exist."""
    if not isinstance(given, str) or not (given.startswith("~") or os.path.isabs(given)):
        raise InputError(document.problem(at, "it must be a path that begins with / or ~", given))
    try:
        return str(Path(given).expanduser().resolve(strict=True))
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, an unknown user, or a cycle of links
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(document.problem(at, f"it must be a directory or a file of Python: {reason}", given)) from None
