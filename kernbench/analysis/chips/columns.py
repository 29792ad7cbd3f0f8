"""The columns of a table under the names that readers know.

Tables that others wrote call the same columns by other names: capital letters, a unit in the name of the measured time, the
names of model configurations. Names are changed only if the table does not have the column under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence

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
    """The names of columns for a first line, and the unit that the name of the measured time has, or ''."""
    names = [name.strip() for name in head]
    for known in (*ALIKE, "measured", "unit", "workers", "size_bytes"):
        names = _renamed(names, known, {known}, str.lower)
    for known, others in ALIKE.items():
        names = _renamed(names, known, others, _letters)
    times = times_among(names)
    if "measured" in names or len(times) != 1:
        return names, ""
    return ["measured" if name == times[0] else name for name in names], _time_and_unit(times[0])[1]


def times_among(head: Sequence[str]) -> list[str]:
    """The columns whose names are those of a measured time with its unit."""
    return [name for name in head if _time_and_unit(name)[1] and _time_and_unit(name)[0] in TIMES]


def completed(row: dict[str, str], unit: str) -> dict[str, str]:
    """A row with the unit of its column, and a class if its operation shows one."""
    if unit and not row.get("unit"):
        row["unit"] = unit
    of_model = row.get("input_tokens") or row.get("prompt_tokens")
    if of_model or row.get("measured") is None or not ("op" in row or row.get("k")):
        return row
    row["op"] = row.get("op") or ("matmul" if row.get("k") else "")
    row["class"] = row.get("class") or class_of(row)
    if row["class"] == "collective":
        row["op"] = _COLLECTIVE_NAMES.get(_letters(row["op"]).removeprefix("nccl"), row["op"])
        for known, others in OF_COLLECTIVES.items():
            if not row.get(known):
                found = next((name for name in row if _letters(name) in others), "")
                if found:
                    row[known] = row[found]
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
