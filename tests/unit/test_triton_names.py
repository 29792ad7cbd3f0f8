"""The table of names in the reference is made here, and compared with Triton where that is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import kernbench.triton.language as tl
from kernbench.triton import TritonError
from kernbench.triton.names import DIFFERS, REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "triton.md"


def table() -> str:
    """A line a name: works, differs (how), or refused (what to use)."""
    lines = ["| name | state | |", "|---|---|---|"]
    for name in sorted({*tl.__all__, *REFUSED}):
        if name in REFUSED:
            lines.append(f"| `{name}` | refused | {REFUSED[name]} |")
        elif name in DIFFERS:
            lines.append(f"| `{name}` | differs | {DIFFERS[name]} |")
        else:
            lines.append(f"| `{name}` | works | |")
    return "\n".join(lines) + "\n"


def test_the_reference_has_the_table() -> None:
    if not PAGE.exists():
        pytest.skip("the documentation is not in this source tree")
    assert PAGE.read_text(encoding="utf-8").endswith(table()), "write table() at the end of docs/reference/triton.md"


def test_every_name_is_there_or_refused() -> None:
    assert not set(tl.__all__) & set(REFUSED) and set(DIFFERS) <= {*tl.__all__}
    assert all(hasattr(tl, name) for name in tl.__all__)
    for name in REFUSED:
        with pytest.raises(TritonError, match=f"tl.{name} is not supported: "):
            getattr(tl, name)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="the triton package is not installed")
def test_all_public_names_of_triton_have_a_state() -> None:
    import triton.language as theirs

    missing = {name for name in getattr(theirs, "__all__", ()) if not name.startswith("_")} - {*tl.__all__, *REFUSED}
    assert not missing
