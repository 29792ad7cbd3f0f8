"""Names that commands draw with, from rich or derived from it, imported on first use. A run with `--json` imports none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console as Console
    from rich.console import ConsoleOptions as ConsoleOptions
    from rich.console import Group as Group
    from rich.console import RenderableType as RenderableType
    from rich.console import RenderResult as RenderResult
    from rich.segment import Segment as Segment
    from rich.style import Style as Style
    from rich.table import Table as Table
    from rich.text import Text as Text

    from kernbench.cli.records import RecordTable as RecordTable

_MODULES = {
    "rich.console": ("Console", "ConsoleOptions", "Group", "RenderResult", "RenderableType"),
    "rich.segment": ("Segment",),
    "rich.style": ("Style",),
    "rich.table": ("Table",),
    "rich.text": ("Text",),
    "kernbench.cli.records": ("RecordTable",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A name of rich; AttributeError if commands use no widget with this name."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found
