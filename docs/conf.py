"""Sphinx settings. The build needs no network; pictures and reference tables are made from the code as it starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

import core_pictures  # noqa: E402
import llm_pictures  # noqa: E402
import pictures  # noqa: E402
import reference  # noqa: E402
import topology_pictures  # noqa: E402
import trace_pictures  # noqa: E402
import validation_tables  # noqa: E402

from kernbench.version import VERSION  # noqa: E402

project = "kernbench"
author = "the kernbench authors"
copyright = author
version = release = VERSION

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_generated"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
nitpicky = True
smartquotes_action = "qe"  # quotes and ellipses; two dashes begin an option

html_theme = "furo"
html_title = f"kernbench {VERSION}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_copy_source = False


def generate(app: Any) -> None:
    """Write the generated parts before the first page is read."""
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    drawn = {**pictures.all_pictures(), **trace_pictures.trace_pictures(), **topology_pictures.topology_pictures()}
    drawn |= core_pictures.core_pictures()
    drawn |= llm_pictures.llm_pictures()
    drawn |= validation_tables.validation_tables()
    for name, text in {**drawn, **reference.all_tables()}.items():
        path = folder / name
        # A file that is the same keeps its time, so that its page is not read again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
