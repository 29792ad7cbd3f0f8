"""Draws the debugger as the tutorial shows it: the program of the tutorial at its bank conflict, and at its lost wait."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from kernbench.debug import Session
from kernbench.debug.app import DebugApp

TUTORIAL = Path(__file__).parent / "tutorials" / "debugger.md"
SIZE = (124, 34)  # columns and rows
#: Name of the picture: the keys and lines that lead to it.
PICTURES = {
    "debug_conflict": ("next conflict",),
    "debug_lost_wait": ("break te0.entry == 2 and entry[1].end == none", "run", "watch dma0.bytes_left"),
}
_FONTS = re.compile(r"@font-face \{.*?\}\n?", re.DOTALL)


def debug_pictures() -> dict[str, str]:
    """File name: SVG. It names no font that is loaded from elsewhere."""
    text = TUTORIAL.read_text(encoding="utf-8")
    found = re.search(r"<!-- file: tiles.json -->\n```json\n(.*?)```", text, re.DOTALL)
    assert found is not None
    program = json.loads(found.group(1))
    return {f"{name}.svg": asyncio.run(_picture(program, lines)) for name, lines in PICTURES.items()}


async def _picture(program: dict[str, object], lines: tuple[str, ...]) -> str:
    app = DebugApp(Session(program, "npu_mobile"))
    async with app.run_test(size=SIZE) as pilot:
        for line in lines:
            app.action_do(line)
            await pilot.pause()
        svg = app.export_screenshot(title="kbsim debug tiles.json --config npu_mobile")
    return _FONTS.sub("", svg).replace("Fira Code", "ui-monospace")
