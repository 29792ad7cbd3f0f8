"""The origin of each value of a machine: a location in its file, an override, or a default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from kernbench.config.document import Document, data_document, path_text
from kernbench.config.overrides import Override
from kernbench.config.places import PathLike


class Origins:
    """The origins of a machine's values by their paths in `effective`, found on first use, because finding locations requires
    reading the text again."""

    def __init__(
        self, data: Any, document: Document, applied: Sequence[Override] = (), files: Mapping[PathLike, str] | None = None
    ) -> None:
        """`data`: the data of the document with overrides and files applied; `files`: the file that filled in a value."""
        self._data, self._document, self._applied = data, document, applied
        self._files = {path_text(path): where for path, where in (files or {}).items()}

    @property
    def filled(self) -> frozenset[str]:
        """Values from files that the machine names, such as that of its DRAM device."""
        return frozenset(self._files)

    @property
    def overridden(self) -> bool:
        """Whether there are overrides, or the machine comes from a dict."""
        return bool(self._applied) or self._document.text is None

    @cached_property
    def places(self) -> dict[str, str]:
        """The origin of each given value."""
        return self._found[0] | self._files

    @property
    def overrides(self) -> dict[str, str]:
        """The override that set each value, by the path of the value."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[dict[str, str], dict[str, str]]:
        origins, overrides = {}, {}
        in_document = set(_leaf_paths((), self._document.data))
        places = self._document.find(in_document)
        made = self._document.origins
        for path in _leaf_paths((), self._data):
            text = path_text(tuple(str(step) if _in_table(path) else step for step in path))
            covering = [override.where for override in self._applied if override.covers(path)]
            if covering:
                origins[text], overrides[text] = "override", covering[-1]
            elif path in in_document:
                place = places.get(path)
                given = "given" if made is None else made.get(path, self._document.source)
                origins[text] = given if place is None else self._document.where(place)
        return origins, overrides


def _in_table(path: PathLike) -> bool:
    return len(path) >= 2 and path[-2] in ("f_w", "f_a", "mac_pj")


def _leaf_paths(path: PathLike, value: Any) -> Iterator[PathLike]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaf_paths((*path, key), item)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        for i, item in enumerate(value):
            yield from _leaf_paths((*path, i), item)
    else:
        yield path


#: The origins of a machine that was not read from anything: each value is a default.
NOWHERE = Origins({}, data_document({}, "machine"))
