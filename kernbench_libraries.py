"""Finds compiled modules in the libraries that the build links, one for each room of a package.

A room is a package such as `kernbench_core.model`, with those inside it. Python looks for one library a module; `setup.py`
links the modules of a room into one, and lists them in `compiled.txt` of the package, a module and its library a line. A listed
module is taken from its library even if its source is beside it. A library that is not there was not built
(`KERNBENCH_BUILD=checked` links each module by itself): its modules are found in the usual way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

LISTED = "compiled.txt"


class LibraryFinder:
    """The compiled modules of one package, for `sys.meta_path`."""

    def __init__(self, folder: str) -> None:
        """`folder`: that of the package, with its list."""
        #: of each module, the file that has it
        self.files: dict[str, str] = {}
        try:
            with open(os.path.join(folder, LISTED), encoding="ascii") as lines:
                listed = dict(line.split() for line in lines)
        except FileNotFoundError:
            return
        above = os.path.dirname(folder)
        built = {name: os.path.join(above, *name.split(".")) + EXTENSION_SUFFIXES[0] for name in set(listed.values())}
        there = {name for name, file in built.items() if os.path.exists(file)}
        self.files = {module: built[name] for module, name in listed.items() if name in there}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Called by `import`: where a module is, or None if it is none of these."""
        file = self.files.get(name)
        return None if file is None else spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))


def find_compiled(init: str) -> None:
    """Called by a package with its `__file__`, before its first compiled module is imported."""
    sys.meta_path.insert(0, LibraryFinder(os.path.dirname(os.path.abspath(init))))
