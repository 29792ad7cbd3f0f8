"""What must not stand in the code: floats and the GIL in the core, postponed work, numbers without a source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kernbench.cmdq.opcodes import OPCODES
from tests.meta.source import ROOT, cython_code, files, name, needs_source

pytestmark = needs_source
GIL_ALLOWED = {"pyarbiter.pyx", "pycomponent.pxd", "pycomponent.pyx"}
POSTPONED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
#: A number's source: said to be assumed, a standard or paper, or arithmetic.
SOURCE = re.compile(r"assumed|JESD|arXiv|[0-9]")
#: A line an engine, as docs/model/formats.md has them.
# fmt: off
FORMATS = [
    "DMA_LOAD_TILE", "DMA_STORE_TILE", "DMA_PREFETCH_TILE", "KV_LOAD_TILE", "KV_STORE_TILE",
    "TE_GEMM_TILE", "TE_MATMUL_TILE", "TE_QKT_TILE", "TE_AV_TILE",
    "VE_LAYERNORM_TILE", "VE_RMSNORM_TILE", "VE_SOFTMAX_TILE", "VE_GELU_TILE",
    "VE_SILU_TILE", "VE_SIGMOID_TILE", "VE_TANH_TILE", "VE_EXP_TILE",
    "VE_ADD_TILE", "VE_MUL_TILE", "VE_COPY_TILE", "VE_SUM_TILE", "VE_MAX_TILE", "VE_MIN_TILE",
    "BARRIER", "NOP", "END",
]
# fmt: on
CORE = files("kernbench_core", suffixes=(".pyx", ".pxd"))


@pytest.mark.parametrize("path", CORE, ids=name)
def test_the_core_has_no_floats(path: Path) -> None:
    found = re.search(r"\b(?:float|double|float32_t|float64_t)\b|\b[0-9]+\.[0-9]+\b", cython_code(path))
    assert found is None, f"{name(path)}: {found[0] if found else ''}"


@pytest.mark.parametrize("path", CORE, ids=name)
def test_the_loop_never_takes_the_gil(path: Path) -> None:
    assert path.name in GIL_ALLOWED or "with gil" not in cython_code(path), name(path)


@pytest.mark.parametrize("path", CORE, ids=name)
def test_the_core_has_no_clock_and_no_random_numbers(path: Path) -> None:
    assert not re.search(r"^\s*(?:from|import|cimport)\s+\S*\b(?:time|random)\b", cython_code(path), re.MULTILINE), name(path)


def test_nothing_is_postponed() -> None:
    found = [name(path) for path in files() if POSTPONED.search(path.read_text(encoding="utf-8"))]
    assert not found


def has_number(text: str) -> bool:
    """Whether a line of YAML, flow mappings and all, holds a number or a size as a value."""
    value = yaml.safe_load(text.strip().removeprefix("- "))
    return any(isinstance(item, int | float) and not isinstance(item, bool) for item in leaves(value)) or bool(
        re.search(r"[0-9] [KMGT]?i?B\b", text)
    )


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


@pytest.mark.parametrize("path", files("configs", suffixes=(".yaml",)), ids=name)
def test_every_number_of_a_preset_has_a_source(path: Path) -> None:
    without = []
    for i, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        text, _, comment = line.partition(" #")
        if text.strip() and not text.startswith("#") and has_number(text) and not SOURCE.search(comment):
            without.append(f"{name(path)}:{i}: {text.strip()}")
    assert not without, "\n".join(without)


def test_has_number_sees_numbers_and_no_names() -> None:
    assert has_number("  rows: 4") and has_number("- {t_max: 4096, head_dim: 128}") and has_number("size: 8 GiB")
    assert not has_number("allocation: shared_bw_v1") and not has_number("spm_traffic: true") and not has_number("dma:")


def test_the_opcodes_are_those_of_the_format() -> None:
    assert [name for name, spec in OPCODES.items() if not spec.system] == FORMATS


def test_the_list_of_opcodes_is_that_of_the_document() -> None:
    text = (ROOT / "docs" / "model" / "formats.md").read_text(encoding="utf-8")
    table = text[text.index("| opcode |") : text.index("the opcodes of systems")]
    names = re.findall(r"\b(?:(?:DMA|KV)_[A-Z]+_TILE|TE_[A-Z]+_TILE|BARRIER|NOP|END)\b", table)
    ves = re.search(r"VE_\{([A-Z,]+)\}_TILE", text)
    assert ves is not None
    assert set(FORMATS) == {*names, *(f"VE_{op}_TILE" for op in ves[1].split(","))}
