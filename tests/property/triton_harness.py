"""Writes the cases as a module of kernels, for Triton or for this package, and runs them."""

from __future__ import annotations

import hashlib
import importlib.util
import pickle
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

OURS = "import kernbench.triton as triton\nimport kernbench.triton.language as tl\n"
THEIRS = "import triton\nimport triton.language as tl\n"
TYPES = {
    "x": "f4",
    "y": "f4",
    "s": "f4",
    "t": "f4",
    "h": "f2",
    "g": "f2",
    "i": "i4",
    "j": "i4",
    "l": "i8",
    "u": "u4",
    "b": "u1",
}
MATRICES = (("m", "x"), ("n", "y"))
GROUP = 40  #: cases of a launch
ROOM = 4096  #: [B] for the result of a case
HEAD = """
FOUND = {}


def note(name, r):
    FOUND[name] = str(r.dtype), [int(one) for one in r.shape]


@triton.jit
def bigger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def both(a, b, c, d):
    return a + c, tl.maximum(b, d)


@triton.jit
def recur(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def put(out_ptr, r):
    if len(r.shape) == 0:
        tl.store(out_ptr.to(tl.pointer_type(r.dtype)), r)
    else:
        tl.store(out_ptr.to(tl.pointer_type(r.dtype)) + tl.reshape(tl.arange(0, r.numel), r.shape), r)

"""
BODY = """
@triton.jit
def case_{name}({pointers}, out_ptr):
    places = tl.arange(0, 256)
{loads}
{lines}
    note("{name}", r)
    put(out_ptr, r)

"""


def module_text(imports: str, cases: Mapping[str, tuple[str, float]]) -> str:
    """All cases, a function each that loads what it uses, and a kernel for each `GROUP` of them."""
    text = imports + HEAD
    pointers = ", ".join(f"{one}_ptr" for one in TYPES)
    for name, (lines, _) in cases.items():
        used = set(re.findall(r"\b[a-z]\b", lines))
        used |= {vector for matrix, vector in MATRICES if matrix in used}
        loads = [f"    {one} = tl.load({one}_ptr + places)" for one in TYPES if one in used]
        loads += [f"    {matrix} = tl.reshape({vector}, (16, 16))" for matrix, vector in MATRICES if matrix in used]
        inside = "\n".join("    " + line for line in lines.split("\n"))
        text += BODY.format(name=name, pointers=pointers, loads="\n".join(loads), lines=inside)
    for number, names in enumerate(groups(list(cases))):
        calls = [f"    case_{name}({pointers}, out_ptr + {i * ROOM})" for i, name in enumerate(names)]
        text += f"@triton.jit\ndef group_{number}({pointers}, out_ptr):\n" + "\n".join(calls) + "\n\n\n"
    return text


def groups(names: list[str]) -> list[list[str]]:
    """Cases that run in one launch, one after the other."""
    return [names[i : i + GROUP] for i in range(0, len(names), GROUP)]


def inputs() -> dict[str, np.ndarray]:
    """What the kernels load."""
    rng = np.random.default_rng(5)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 3e38, -2.5, 65504, 1e-3, 7, -7, 0.5, 1e10], np.float32)
    made = {
        "x": rng.standard_normal(256), "y": rng.standard_normal(256), "s": np.repeat(special, 16), "t": np.tile(special, 16),
        "h": rng.standard_normal(256), "g": rng.standard_normal(256), "i": rng.integers(-99, 99, 256),
        "j": rng.integers(1, 50, 256) * rng.choice([-1, 1], 256), "l": rng.integers(-(2**62), 2**62, 256),
        "u": rng.integers(0, 2**32, 256), "b": rng.integers(0, 256, 256),
    }  # fmt: skip
    return {name: made[name].astype(kind) for name, kind in TYPES.items()}


def load(path: Path) -> Any:
    """A module of kernels."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run_all(path: Path, names: list[str], wrap: Any) -> dict[str, Any]:
    """(type, shape, bytes) of each case, or the text of what it raised."""
    module = load(path)
    found: dict[str, Any] = {}
    for number, group in enumerate(groups(names)):
        try:
            _run(module, f"group_{number}", group, wrap, found)
        except Exception:
            for name in group:  # each by itself: which one it was
                try:
                    _run(module, f"case_{name}", [name], wrap, found)
                except Exception as error:
                    found[name] = f"{type(error).__name__}: {error}"
    return found


def _run(module: Any, kernel: str, names: list[str], wrap: Any, found: dict[str, Any]) -> None:
    out = np.zeros(ROOM * len(names), np.uint8)
    arrays = [wrap(one) for one in (*inputs().values(), out)]
    getattr(module, kernel)[(1,)](*arrays)
    data = np.asarray(arrays[-1])
    for i, name in enumerate(names):
        found[name] = *module.FOUND[name], data[i * ROOM : (i + 1) * ROOM].tobytes()


KINDS = [
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float8e4nv",
    "float8e5",
    "float16",
    "bfloat16",
    "float32",
]
NUMBERS = ["True", "1", "-1", "300", "70000", "5000000000", "0.5", "1e30"]
OPS = ["+", "/", "%", "&", "<<", "<", "-", "*", "//", "|", "^", ">>", "=="]
TYPE_KERNEL = """
import warnings

ROWS = {}


def row(a, op):
    found = []
    for b in KINDS + NUMBERS:
        for turned in (False, True) if b in NUMBERS else (False,):
            try:
                x = tl.full((2,), 1, getattr(tl, a))
                y = tl.full((2,), 1, getattr(tl, b)) if b in KINDS else eval(b)
                x, y = (y, x) if turned else (x, y)
                found.append(str(eval("x " + op + " y", {"x": x, "y": y}).dtype))
            except Exception:
                found.append("refused")
    ROWS[a + " " + op] = found


@triton.jit
def kernel():
    for a in KINDS:
        for op in OPS:
            row(a, op)

"""


def types_text(imports: str, ops: list[str]) -> str:
    """A module whose kernel notes the types of all operators on all pairs of types, and of types and numbers."""
    return imports + f"KINDS = {KINDS}\nNUMBERS = {NUMBERS}\nOPS = {ops}\n" + TYPE_KERNEL


def run_types(path: Path) -> dict[str, list[str]]:
    """Types of results by `type operator`."""
    module = load(path)
    module.kernel[(1,)]()
    found: dict[str, list[str]] = module.ROWS
    return found


NUMPY = {
    "fp32": "f4", "fp16": "f2", "int1": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "fp8e4nv": "u1", "fp8e5": "u1",
}  # fmt: skip


def elements(kind: str, shape: list[int], data: bytes) -> np.ndarray:
    """The result of a case; all NaN are one."""
    found = np.frombuffer(data, NUMPY[kind], int(np.prod(shape, dtype=int))).copy()
    if found.dtype.kind == "f":
        found[np.isnan(found)] = np.nan
    return found


def digest(kind: str, shape: list[int], data: bytes) -> str:
    """A result in short: `fp32[256] 1f0c...`."""
    return f"{kind}{shape} {hashlib.sha256(elements(kind, shape, data).tobytes()).hexdigest()[:12]}"


if __name__ == "__main__":  # under Triton's interpreter: the folder with the modules, and the names of the cases
    import torch  # type: ignore[import-not-found]

    folder = Path(sys.argv[1])
    names = (folder / "cases.names").read_text().split()
    results = run_all(folder / "cases_theirs.py", names, torch.from_numpy), run_types(folder / "types_theirs.py")
    (folder / "theirs.pickle").write_bytes(pickle.dumps(results))
