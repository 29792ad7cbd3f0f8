"""Sphinx settings. The build needs no network; pictures and reference tables are made from the code as it starts."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

import core_pictures  # noqa: E402
import debug_pictures  # noqa: E402
import llm_pictures  # noqa: E402
import pictures  # noqa: E402
import reference  # noqa: E402
import run_picture  # noqa: E402
import scaling_pictures  # noqa: E402
import topology_pictures  # noqa: E402
import trace_pictures  # noqa: E402
import triton_pictures  # noqa: E402
import validation_tables  # noqa: E402
from sphinx.builders.html import StandaloneHTMLBuilder  # noqa: E402

from kernbench.common.look.css import docs_css  # noqa: E402
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

#: With KERNBENCH_DOCS_QUICK=1, a test of the build itself, pages have no search and a theme that is written fast.
QUICK = os.environ.get("KERNBENCH_DOCS_QUICK") == "1"
html_theme = "basic" if QUICK else "furo"
html_title = f"kernbench {VERSION}"
html_static_path = ["_static", "_generated/style"]
html_css_files = ["tokens.css", "docs.css"]  # tokens.css is made from the token file
html_extra_path = ["_generated/site"]  # the pictures of the landing page, and the report that it links to
#: The theme's colours, by those of the token file.
COLOURS = {
    "color-foreground-primary": "var(--kb-ink)",
    "color-foreground-secondary": "var(--kb-soft)",
    "color-foreground-muted": "var(--kb-faint)",
    "color-background-primary": "var(--kb-card)",
    "color-background-secondary": "var(--kb-page)",
    "color-background-border": "var(--kb-line)",
    "color-code-background": "var(--kb-head)",
    "color-brand-primary": "var(--kb-accent)",
    "color-brand-content": "var(--kb-accent)",
    "color-sidebar-link-text": "var(--kb-ink)",
    "color-sidebar-link-text--top-level": "var(--kb-ink)",
}
html_theme_options = {} if QUICK else {
    "navigation_with_keys": True,
    "light_css_variables": {
        "font-stack": "var(--kb-sans)",
        "font-stack--monospace": "var(--kb-mono)",
        **COLOURS,
    },
    "dark_css_variables": COLOURS,
}
if QUICK:
    gc.disable()  # searches for garbage among the nodes of all pages take a fifth of the build; there is 230 MB of it
    atexit.register(gc.freeze)  # nor when the process ends
    html_sidebars = {"index": ["globaltoc.html"], "**": []}
    StandaloneHTMLBuilder.search = False  # the index of words takes an eighth of the build
html_show_sourcelink = False
html_copy_source = False


GENERATED = HERE / "_generated"
SITE, STYLE = GENERATED / "site", GENERATED / "style"
for path in (SITE, STYLE):  # before Sphinx looks for html_extra_path and html_static_path
    path.mkdir(parents=True, exist_ok=True)


def generate(app: Any) -> None:
    """Write the generated parts before the first page is read."""
    drawn = {**pictures.all_pictures(), **trace_pictures.trace_pictures(), **topology_pictures.topology_pictures()}
    drawn |= core_pictures.core_pictures()
    drawn |= debug_pictures.debug_pictures()
    drawn |= llm_pictures.llm_pictures()
    drawn |= scaling_pictures.scaling_pictures()
    drawn |= triton_pictures.triton_pictures()
    drawn |= validation_tables.validation_tables()
    shown = run_picture.shown_run()
    drawn |= {f"{SITE.name}/{name}": picture for name, picture in run_picture.run_pictures(shown).items()}
    drawn |= {"landing.md": run_picture.landing(shown), f"{SITE.name}/{run_picture.PAGE}": shown.page}
    drawn |= {f"{STYLE.name}/tokens.css": docs_css()}
    for name, text in {**drawn, **reference.all_tables()}.items():
        path = GENERATED / name
        # A file that is the same keeps its time, so that its page is not read again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
