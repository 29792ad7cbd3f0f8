"""The tables of names in the reference are made here, and compared with Triton where that is installed."""

from __future__ import annotations

import importlib.util
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.triton.language import math
from kernbench.triton.language.extra import libdevice
from kernbench.triton.names import DIFFERS, REFUSED, REFUSED_ON_HOST

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "triton.md"
INSTALLED = importlib.util.find_spec("triton") is not None
#: Classes that kernels do not call, and functions that take more here: `boundary_check` and `padding_option`.
OTHER_SIGNATURES = {"dtype", "tensor", "tensor_descriptor", "tensor_descriptor_base", "tuple", "load", "store", "PropagateNan"}


def _told(text: str) -> str:
    """As Markdown: brackets before parentheses would be a link."""
    return text.replace("kernel[grid](...)", "`kernel[grid](...)`")


def _block(names: Iterable[str]) -> list[str]:
    """A block of names, in lines of text."""
    return ["```text", *textwrap.wrap("  ".join(names), 110, break_on_hyphens=False), "```"]


def _names(names: Iterable[str], differs: Mapping[str, str], refused: Mapping[str, str]) -> list[str]:
    """A list of the names that work as in Triton, and tables of the others."""
    works = sorted({*names} - {*differs} - {*refused})
    lines = ["", "The following names work as in Triton:", "", *_block(works)]
    for head, others in (("how it differs", differs), ("refused; what to use", refused)):
        if others:
            lines += ["", f"| name | {head} |", "|---|---|"]
            lines += [f"| `{name}` | {_told(others[name])} |" for name in sorted(others)]
    return lines


def table() -> str:
    """By module: the names that work, the names that differ (how), and the refused ones (what to use)."""
    lines = ["## Names of `triton.language`", *_names(tl.__all__, DIFFERS, REFUSED)]
    lines += ["", "## Names of `tl.math` and of `libdevice`", ""]
    lines += ["The module `tl.math` has the following functions:", "", *_block(math.__all__), ""]
    more = [name for name in libdevice.WORKS if name not in math.__all__]
    has = "The module `libdevice` has all functions of `tl.math`, also under names that end with an additional `f`. "
    has += "The module `libdevice` also has the following functions:"
    lines += [has, "", *_block(more), ""]
    others = "Examples are functions that do not round to nearest, and functions that split an f64 into parts."
    lines.append(f"kernbench refuses all other functions of `libdevice`. {others}")
    lines += ["", "## Names of `triton`", *_names(triton.__all__, {}, REFUSED_ON_HOST)]
    return "\n".join(lines) + "\n"


def test_the_reference_has_the_tables() -> None:
    if not PAGE.exists():
        pytest.skip("the documentation is not in this source tree")
    assert PAGE.read_text(encoding="utf-8").endswith(table()), "write table() at the end of docs/reference/triton.md"


def test_every_name_is_there_or_refused() -> None:
    assert not set(tl.__all__) & set(REFUSED) and set(DIFFERS) <= {*tl.__all__}
    assert all(hasattr(tl, name) for name in tl.__all__) and all(hasattr(libdevice, name) for name in libdevice.WORKS)
    for name in REFUSED:
        with pytest.raises(triton.TritonError, match=f"tl.{name} is not supported: "):
            getattr(tl, name)
    for name in REFUSED_ON_HOST:
        with pytest.raises(triton.TritonError, match=f"^triton.{name} is not supported: "):
            getattr(triton, name)


def test_modules_that_kernels_import_from() -> None:
    from kernbench.triton.language.core import static_assert
    from kernbench.triton.language.extra.cuda import libdevice as same
    from kernbench.triton.language.standard import _log2, sum

    assert static_assert is tl.static_assert and sum is tl.sum and _log2(64) == 6 and same is libdevice
    assert tl.core.dot is tl.dot and tl.standard.sort is tl.sort and tl.random.rand is tl.rand
    with pytest.raises(triton.TritonError) as caught:
        libdevice.add_rd  # noqa: B018
    assert str(caught.value) == "libdevice.add_rd is not supported; results are rounded to nearest; use libdevice.add_rn"
    with pytest.raises(triton.TritonError, match=r"libdevice\.hiloint2double is not supported; it takes f64 apart"):
        libdevice.hiloint2double  # noqa: B018


def public(module: Any) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_")}


@pytest.mark.skipif(not INSTALLED, reason="the triton package is not installed")
def test_all_public_names_of_triton_have_a_state() -> None:
    import triton as theirs
    import triton.language.extra.libdevice as their_libdevice
    import triton.language.math as their_math

    assert public(theirs.language) - {*tl.__all__, *REFUSED} == set()
    assert public(theirs) - {*triton.__all__, *REFUSED_ON_HOST} == set()
    assert public(their_math) - {*math.__all__} == {"List", "T", "core", "wraps"}
    for name in public(their_libdevice) - {"core", *libdevice.WORKS}:
        with pytest.raises(triton.TritonError, match=f"^libdevice.{name} is not supported; "):
            getattr(libdevice, name)


def signature(function: Any) -> list[tuple[str, Any]] | None:
    """Names and defaults of what a user gives; None of what has no signature."""
    try:
        found = inspect.signature(getattr(function, "fn", function)).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(one.name, str(getattr(one.default, "value", one.default))) for one in found if not one.name.startswith("_")]


def settled(found: list[tuple[str, Any]] | None) -> list[tuple[str, str]]:
    """Types by their short names, and truth values as such."""
    short = {"0": "False", "1": "True", "triton.language.float32": "fp32"}
    return [(name, short.get(default, default)) for name, default in found or []]


@pytest.mark.skipif(not INSTALLED, reason="the triton package is not installed")
def test_tensors_and_types_have_triton_s_attributes() -> None:
    import triton.language as theirs

    from kernbench.triton.tensor import METHODS

    assert public(theirs.tensor) - public(tl.tensor) - METHODS == set()
    compiler = {"FP_TYPES", "KIND", "OTHER_TYPES", "SIGNEDNESS", "SINT_TYPES", "STANDARD_FP_TYPES", "UINT_TYPES"}
    compiler |= {"cache_key_part", "codegen_name", "is_const", "is_dtype", "mangle", "to_ir", "with_element_ty"}
    assert {name for name in public(theirs.dtype) - compiler if not hasattr(tl.int32, name)} == set()
    of_one = {name for name in public(theirs.dtype) if name.startswith("is_")} - {"is_dtype", "is_const", "is_void"}
    for name in ("int1", "int8", "uint64", "float8e5", "float16", "bfloat16", "float32"):
        for asked in sorted(of_one):
            assert getattr(getattr(tl, name), asked)() == getattr(getattr(theirs, name), asked)(), (name, asked)


@pytest.mark.skipif(not INSTALLED, reason="the triton package is not installed")
def test_arguments_have_triton_s_names_and_defaults() -> None:
    import triton.language as theirs

    compared = 0
    for name in sorted(set(tl.__all__) & public(theirs) - OTHER_SIGNATURES):
        there = signature(getattr(theirs, name))
        if there is not None and callable(getattr(theirs, name)):
            assert settled(signature(getattr(tl, name))) == settled(there), name
            compared += 1
    assert compared > 100
