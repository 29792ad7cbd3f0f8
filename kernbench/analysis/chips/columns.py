"""The columns of a table under the names that readers know.

Tables that others wrote call the same columns by other names: capital letters, a unit in the name of the measured time, the
names of model configurations. Names are changed only if the table does not have the column under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from kernbench.workloads.ops.operation import COLLECTIVES

#: Units of measured times, by the way they are written in the names of columns.
UNIT_NAMES = {
    **dict.fromkeys(("ns", "nsec", "nanoseconds"), "ns"),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microseconds"), "us"),
    **dict.fromkeys(("ms", "msec", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "seconds"), "s"),
}
#: What measured times are called, without the unit, in lower case and without other characters than letters.
TIMES = {
    "", "measured", "time", "latency", "duration", "runtime", "elapsed", "kerneltime", "gputime", "cudatime", "devicetime",
    "measuredtime", "mediantime", "timemedian", "meantime", "avgtime", "median", "mean", "avg", "average", "latencymedian",
    "medianlatency", "meanlatency", "avglatency", "kernelduration", "gpuduration",
}  # fmt: skip
#: Other names of columns, in lower case and without other characters than letters and digits.
ALIKE: dict[str, tuple[str, ...]] = {
    "class": ("kind", "type", "category"),
    "op": ("name", "kernel", "kernelname", "operation", "operator", "opname"),
    "m": ("rows", "numtokens", "tokens"),
    "n": ("cols", "columns", "width"),
    "k": (),
    "dtype": ("datatype", "inputdtype", "precision"),
    "layers": ("numhiddenlayers", "numlayers", "nlayers"),
    "hidden": ("hiddensize", "hiddendim", "dmodel", "embeddim", "nembd"),
    "heads": ("numattentionheads", "numheads", "nheads", "numqheads", "qheads", "queryheads"),
    "kv_heads": ("numkeyvalueheads", "numkvheads", "nkvheads", "kvheads"),
    "head_dim": ("headsize", "headdim", "dhead"),
    "mlp": ("intermediatesize", "intermediate", "ffn", "ffndim", "mlpdim", "dff"),
    "vocab": ("vocabsize", "vocabulary"),
    "experts": ("numexperts", "numlocalexperts"),
    "active": ("numexpertspertok", "topk", "activeexperts"),
}
#: Other names that a column has only in tables of collectives: elsewhere they mean something else.
OF_COLLECTIVES: dict[str, tuple[str, ...]] = {
    "workers": ("ranks", "nranks", "numranks", "worldsize", "numgpus", "ngpus", "gpus", "devices"),
    "size_bytes": ("size", "sizeb", "messagesize", "messagebytes", "nbytes", "bytes"),
}
_COLLECTIVE_NAMES = {name.replace("_", ""): name for name in COLLECTIVES}
#: Words in the names of operations, by class; the first class that has one is taken.
_WORDS = (
    ("moe", ("moe", "expert")),
    ("attention", ("attn", "attention", "sdpa", "flash")),
    ("norm", ("norm", "softmax")),
    ("elementwise", ("rope", "rotary")),
    ("gather", ("embed", "emb", "gather", "index_select")),
    ("matmul", ("matmul", "gemm", "linear", "proj", "lm_head")),
    ("other", ("sampl", "topk", "argmax")),
    ("elementwise", (
        "gelu", "silu", "relu", "swiglu", "sigmoid", "tanh", "act", "add", "mul", "copy", "cast", "residual",
        "elementwise",
    )),
)  # fmt: skip


def columns_of(head: Sequence[str]) -> tuple[list[str], str]:
    """The names of columns for a first line, and the unit that the name of the measured time has, or ''.

    Raises ValueError if two columns have the same name, or if two columns give the unit.
    """
    names = [name.strip() for name in head]
    if twice := next((name for name in names if name and names.count(name) > 1), ""):
        raise ValueError(f"two columns have the name {twice}; remove or rename one of them")
    for known in (*ALIKE, "measured", "unit", "workers", "size_bytes"):
        names = _renamed(names, known, {known}, str.lower)
    for known, others in ALIKE.items():
        names = _renamed(names, known, others, _letters)
    times = times_among(names)
    if "measured" in names or len(times) != 1:
        return names, ""
    unit = _time_and_unit(times[0])[1]
    if "unit" in names:
        raise ValueError(
            f"{times[0]} names a unit, and so does the column unit; remove that column, or rename {times[0]} to measured"
        )
    return ["measured" if name == times[0] else name for name in names], unit


def times_among(head: Sequence[str]) -> list[str]:
    """The columns whose names are those of a measured time with its unit. A column `s` may be a length."""
    return [name for name in head if name != "s" and _time_and_unit(name)[1] and _time_and_unit(name)[0] in TIMES]


def alike(row: Iterable[str], known: str) -> list[str]:
    """The columns of a table that could be the known column, under other names."""
    others = ALIKE.get(known) or OF_COLLECTIVES.get(known, ())
    return [name for name in row if _letters(name) in others]


def completed(row: dict[str, str], unit: str) -> dict[str, str]:
    """A row with the unit of its column, and a class if its operation shows one."""
    if unit:
        row["unit"] = unit
    of_model = row.get("input_tokens") or row.get("prompt_tokens")
    if of_model or row.get("measured") is None or not ("op" in row or row.get("k")):
        return row
    row["op"] = row.get("op") or ("matmul" if row.get("k") else "")
    row["class"] = row.get("class") or class_of(row)
    if row["class"] == "collective":
        row["op"] = _COLLECTIVE_NAMES.get(_letters(row["op"]).removeprefix("nccl"), row["op"])
        for known in OF_COLLECTIVES:
            found = alike(row, known)
            if not row.get(known) and len(found) == 1:
                row[known] = row[found[0]]
    return row


def class_of(row: Mapping[str, str]) -> str:
    """The class of an operation by its name and its columns, or ''."""
    name = (row.get("op") or "").lower()
    if _letters(name).removeprefix("nccl") in _COLLECTIVE_NAMES:
        return "collective"
    if row.get("n_decode") or row.get("kv_cache"):
        return "attention"
    found = next((kind for kind, words in _WORDS if any(word in name for word in words)), "")
    return "matmul" if row.get("k") and found != "moe" else found


def _renamed(names: list[str], known: str, others: Container[str], plain: Callable[[str], str]) -> list[str]:
    """The names with one of `others` replaced; unchanged if the table has the column, or if several names fit."""
    found = [] if known in names else [name for name in names if plain(name) in others]
    return [known if name == found[0] else name for name in names] if len(found) == 1 else names


def _letters(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _time_and_unit(name: str) -> tuple[str, str]:
    """The letters of a name before its unit, and the unit: ("time", "us") for `Time (us)`."""
    found = re.fullmatch(r"(.*?)[\s_.\-/]*[\[(]?([a-zµμ]+)[\])]?", name.strip().lower())
    if found is None or found[2] not in UNIT_NAMES:
        return "", ""
    return re.sub("[^a-z]", "", found[1]), UNIT_NAMES[found[2]]
