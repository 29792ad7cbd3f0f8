"""Damaged specs, NoC logs, model files, traces, counters and lists of collectives: read or refused, soon, in little memory."""

from __future__ import annotations

import contextlib
import copy
import gc
import gzip
import json
import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.samples import write_samples
from tests.mutation_runs import Tally, commands, kbsim, run_forked
from tests.noc_samples import barrier, kernel, read, write
from tests.property.fuzz.campaign import import_all

INTEGERS = (0, 1, -1, 2, 3, 7, 64, 1000, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**400)
OTHERS = (
    0.5,
    -0.0,
    1e-300,
    1e308,
    True,
    False,
    None,
    "",
    "x",
    "\0",
    "é\u202e",
    "a" * 5000,
    "1/0",
    "1 GiB",
    "9" * 400,
    "-1",
    "*",
)
PIECES = (
    b"\xff",
    b"\0",
    b"{",
    b"[" * 300,
    b'"',
    b"NaN",
    b"1e9999999",
    b"9" * 5000,
    b",",
    b"\n- ",
    b"&a ",
    b"*a ",
    b"!!python/x ",
)
WORDS = (
    b"\\ud800",
    b"<<: ",
    b"---\n",
    b"null",
    b"true",
    b"\r\n",
    b"\xe2\x80\xa8",
    b"-Infinity",
    b"[]",
    b"{}",
    b"0x10",
    b"1_000",
)


def strange(rng: random.Random) -> Any:
    if rng.random() < 0.1:
        value: Any = 1
        for i in range(rng.choice((1, 3, 60, 70, 100))):
            value = [value] if i % 2 else {"a": value}
        return value
    return copy.deepcopy(rng.choice((*INTEGERS, *OTHERS, [], {}, [None], [1, 2], {"a": 1}, ["a"] * 30)))


def change(rng: random.Random, data: Any) -> None:
    """A value is replaced, taken away, given twice, renamed or moved; a number changes a little."""
    places, stack = [], [data]
    while stack:
        holder = stack.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            places.append((holder, key))
            if isinstance(holder[key], dict | list):
                stack.append(holder[key])
    if not places:
        return
    holder, key = rng.choice(places)
    kind = rng.choice(("replace", "replace", "delete", "rename", "copy", "number", "number", "twice"))
    numbers = [(h, k) for h, k in places if type(h[k]) in (int, float)]
    if kind == "number" and numbers:
        holder, key = rng.choice(numbers)
        value = holder[key]
        as_float = float(value) if abs(value) < 10**308 else math.inf  # an earlier change may have made it larger
        holder[key] = rng.choice((*INTEGERS, value + 1, value * 2, -value, value * 1000, as_float))
    elif kind == "delete":
        del holder[key]
    elif kind == "rename" and isinstance(holder, dict):
        holder[rng.choice(("x", "", *map(str, (place[1] for place in places[:50]))))] = holder.pop(key)
    elif kind == "copy":
        other, other_key = rng.choice(places)
        holder[key] = copy.deepcopy(other[other_key])
    elif kind == "twice" and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    else:
        holder[key] = strange(rng)


def cut(rng: random.Random, content: bytes) -> bytes:
    """Bytes are cut, dropped, given twice or put in."""
    at = rng.randrange(len(content) + 1)
    end = min(len(content), at + rng.randrange(30))
    return rng.choice(
        (
            content[:at],
            content[:at] + content[end:],
            content[:end] + content[at:],
            content[:at] + rng.choice((*PIECES, *WORDS)) + content[at:],
        )
    )


@dataclass(frozen=True)
class Format:
    """A kind of file: what a sound one has, how it is written, and the commands that read it."""

    make: Callable[[], Any]
    name: str
    uses: tuple[tuple[str, ...], ...]
    text: Callable[[Any], str] = json.dumps
    forms: tuple[str, ...] = ()  #: of commands of which one at a time is run

    def write(self, rng: random.Random, folder: Path) -> list[tuple[str, ...]]:
        data = copy.deepcopy(self.make())
        for _ in range(rng.choice((1, 1, 2, 3))):
            change(rng, data)
        content = self.text(data).encode("utf-8", "surrogatepass")
        if rng.random() < 0.2:
            content = cut(rng, content)
        name = self.name
        if name.endswith(".jsonl") and rng.random() < 0.1:
            name, content = f"{name}.gz", gzip.compress(content)
            content = cut(rng, content) if rng.random() < 0.5 else content
        (folder / name).write_bytes(content)
        uses = [tuple(name if word == self.name else word for word in use) for use in self.uses]
        return rng.sample(uses, min(len(uses), 3))


def lines(data: Any) -> str:
    return "".join(json.dumps(item) + "\n" for item in data) if isinstance(data, list) else json.dumps(data)


def spec() -> Any:
    return {
        "schema": "kernbench/sweep/1", "name": "s",
        "targets": ["tiles.json", {"llm": "m.json", "params": {"prompt": 4, "tokens": 1}}],
        "machine": ["small.yaml", "npu_server"], "set": {"max_cycles": 100000},
        "axes": {"dram.t_setup_cycles": [10, 50], "te.macs_per_cycle": {"from": 64, "to": 256, "count": 2, "scale": "log"}},
        "where": ["te.macs_per_cycle > 64 or dram.t_setup_cycles == 10"], "sample": {"random": 3, "seed": 1},
        "budget": {"points": 3, "seconds": 10},
        "goals": {"ns": "min", "energy_pj": "min"}, "invalid": "skip",
    }  # fmt: skip


def noc_log() -> Any:
    first = kernel(1, 1, read(10, 0, 0, 2048), *barrier(20, 300), write(310, 2, 2, 64), *barrier(320, 400, "WRITE"))
    return first + kernel(2, 2, read(5, 1, 1, 100, "NOC_1"), proc="BRISC")


def model() -> Any:
    return {
        "model_type": "gemma2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "gelu", "vocab_size": 100, "max_position_embeddings": 512,
        "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"] * 2, "torch_dtype": "float16",
        "quantization_config": {
            "quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}},
            "kv_cache_scheme": {"num_bits": 8},
        },
        "tie_word_embeddings": True, "attn_logit_softcapping": 50.0, "num_local_experts": 4, "num_experts_per_tok": 2,
    }  # fmt: skip


def policy() -> Any:
    heads = [{"kv_head": 0, "w": 8, "kv": 8}]
    return {
        "w": 4,
        "a": 8,
        "kv": 4,
        "roles": {"lm_head": 8},
        "layers": [{"layers": [0, 2], "w": 8}, {"layers": [1], "heads": heads}],
    }


def collectives() -> Any:
    queues = {"slots": 2, "slot_bytes": "4 KiB", "tier": "tcm"}
    ring = {"module": "kernbench.ccl.algorithms.all_reduce_ring", "topologies": ["ring", "torus"], "slots": 4}
    return {"schema": "kernbench/ccl/1", "defaults": queues, "algorithms": {"all_reduce": {"ring": ring}}}


TRACE: list[Any] = []


def trace() -> Any:
    return TRACE


def counters() -> Any:
    return {"counters": [{"counter": "te0.busy", "value": 8, "unit": "te0"}, {"counter": "x", "value": 5, "t_cycle": 20}]}


LLM = (
    "llm",
    "--model",
    "m.json",
    "--prompt",
    "8",
    "--tokens",
    "1",
    "--config",
    "npu_mobile",
    "--set",
    "max_cycles=1000000",
    "-q",
)
FORMATS: dict[str, Format] = {
    "spec": Format(
        spec, "s.yaml", (("sweep", "run", "s.yaml", "--dry-run"), ("sweep", "run", "s.yaml", "--threads", "1", "-q")),
        lambda data: yaml.safe_dump(data, sort_keys=False),
    ),
    "noc": Format(noc_log, "n.json", (("noc", "replay", "n.json"), ("noc", "replay", "n.json", "--json", "--mode", "closed"))),
    "model": Format(model, "m.json", (LLM, (*LLM, "--phase", "decode", "--layers", "1"))),
    "policy": Format(policy, "p.yaml", ((*LLM, "--policy", "p.yaml"),), lambda data: yaml.safe_dump(data)),
    "ccl": Format(
        collectives, "c.yaml",
        (("ccl", "list", "--ccl", "c.yaml"), ("ccl", "run", "all_reduce", "--ccl", "c.yaml", "-b", "1K", "-q")),
        lambda data: yaml.safe_dump(data),
    ),
    "trace": Format(
        trace, "t.jsonl",
        (
            ("trace", "summary", "t.jsonl"), ("trace", "validate", "t.jsonl"), ("trace", "report", "t.jsonl", "-o", "r.html"),
            ("trace", "report", "t.jsonl", "--view", "gantt", "-o", "r.svg"),
            ("trace", "export", "t.jsonl", "--to", "chrome", "-o", "e"),
            ("trace", "report", "t.jsonl", "--view", "heatmap", "-o", "r.svg"), ("trace", "diff", "sound.jsonl", "t.jsonl"),
            ("trace", "report", "t.jsonl", "--view", "roofline", "-o", "r.svg"),
            ("trace", "diff", "t.jsonl", "sound.jsonl"),
            ("trace", "export", "t.jsonl", "--to", "perfetto", "-o", "e"),
            ("trace", "export", "t.jsonl", "--to", "csv", "-o", "dir"),
            ("trace", "align", "t.jsonl", "counters.json", "-o", "a.jsonl"), ("trace", "why", "t.jsonl"),
            ("trace", "why", "t.jsonl", "--op", "3"), ("trace", "summary", "t.jsonl", "--format", "csv"),
        ),
        lines,
    ),
    "counters": Format(counters, "counters.json", (("trace", "align", "sound.jsonl", "counters.json", "-o", "a.jsonl"),)),
}  # fmt: skip


def prepare(folder: Path) -> None:
    """Sound files of every format."""
    write_samples(folder)
    ended = run_forked(
        commands([("run", "tiles.json", "-c", "small.yaml", "--trace", "sound.jsonl", "--trace-level", "full")]), folder
    )
    assert ended.code == 0, ended.said
    TRACE[:] = [json.loads(line) for line in (folder / "sound.jsonl").read_text().splitlines()]
    for form in FORMATS.values():
        (folder / form.name).write_text(form.text(form.make()))
    for name, form in FORMATS.items():
        for use in form.uses:
            ended = run_forked(commands([use]), folder)
            assert ended.code == 0, f"{name}: {' '.join(use)}: {ended.said}"


def write_case(seed: str, folder: Path, which: str = "") -> list[tuple[str, ...]]:
    """The file that belongs to a seed, and the commands that read it; all other files are sound."""
    rng = random.Random(seed)
    for form in FORMATS.values():
        (folder / form.name).write_text(form.text(form.make()))
    (folder / "s.sqlite").unlink(missing_ok=True)
    return FORMATS[which or rng.choice(list(FORMATS))].write(rng, folder)


def search(seed: int, count: int, folder: Path, which: str = "") -> Tally:
    """So many damaged files; of all formats where none is named."""
    import_all()  # so that no child has to
    write_samples(folder)
    with contextlib.chdir(folder):  # matplotlib imports more when it draws
        assert kbsim("run", "tiles.json", "-c", "small.yaml", "--trace", "t.jsonl", "-q") == 0
        assert kbsim("trace", "report", "t.jsonl", "--view", "gantt", "-o", "r.svg") == 0
    prepare(folder)
    kbsim("sweep", "report", "none")
    found = Tally(seed)
    gc.freeze()
    for number in range(count):
        case = f"{seed}.{number}"
        found.add(case, run_forked(commands(write_case(case, folder, which)), folder))
    return found


def test_damaged_files(tmp_path: Path) -> None:
    search(24, 12, tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("which", FORMATS)
def test_damaged_files_for_long(which: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("KB_SEED") or random.SystemRandom().randrange(1 << 32))
    search(seed, 500, tmp_path, which).check()
