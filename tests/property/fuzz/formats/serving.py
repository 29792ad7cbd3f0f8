"""What `kbsim serve` reads: requests, fleets and shares of experts; and runtime profiles."""

from __future__ import annotations

import csv
import importlib.resources
import io
import json
from collections.abc import Sequence
from random import Random
from typing import Any

import yaml

from tests.property.fuzz.case import Case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed, text_of

MODEL: dict[str, Any] = {
    "model_type": "mixtral", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 128, "hidden_act": "silu", "head_dim": 16,
    "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None,
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"arrival_s": 0, "input_tokens": 20, "output_tokens": 2, "prefix": "a", "prefix_tokens": 8, "priority": 1},
    {"arrival_s": 0.001, "input_tokens": 9, "output_tokens": 3, "prefix": "a", "prefix_tokens": 8, "abort_ms": 5},
    {"arrival_s": 0.002, "input_tokens": 33, "output_tokens": 1, "ttft_target_ms": 3.5},
]
BURSTS: list[dict[str, Any]] = [
    {"Timestamp": 5, "Model": "ChatGPT", "Request tokens": 20, "Response tokens": 3, "Total tokens": 23, "Log Type": "API log"},
    {"Timestamp": 6, "Model": "GPT-4", "Request tokens": 9, "Response tokens": 0, "Total tokens": 9, "Log Type": "API log"},
    {"Timestamp": 6.5, "Model": "GPT-4", "Request tokens": 12, "Response tokens": 4, "Total tokens": 16, "Log Type": "x"},
]
TALKS: list[dict[str, Any]] = [
    {"id": "a", "conversations": [{"from": "human", "value": "how are you " * 4}, {"from": "gpt", "value": "fine " * 8}]},
    {"id": "b", "conversations": [{"from": "human", "value": "tell me more " * 5}, {"from": "gpt", "value": "of what? " * 3}]},
]
FLEET: dict[str, Any] = {
    "schema": "kernbench/fleet/1",
    "groups": [
        {"config": "npu_mobile", "count": 2, "set": {"cost.usd_per_hour": 0.5, "cost.watts": 450}, "max_num_seqs": 4},
        {"config": "npu_server", "role": "both", "max_num_batched_tokens": 256, "gpu_memory_utilization": 0.8, "w": 8,
         "num_gpu_blocks": 100},
    ],
}  # fmt: skip
SHARES: dict[str, Any] = {"shares": [0.5, 0.25, 0.125, 0.125]}


def as_csv(rows: Sequence[Any]) -> bytes:
    """A table with the columns of all rows; a row that is a list or a value has its own number of cells."""
    file = io.StringIO()
    writer = csv.writer(file)
    names = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
    writer.writerow(names)
    for row in rows:
        cells = [row.get(name, "") for name in names] if isinstance(row, dict) else row
        writer.writerow(cells if isinstance(cells, list) else [cells])
    return file.getvalue().encode("utf-8", "surrogatepass")


def as_lines(rows: Any) -> bytes:
    """A line of JSON for each row."""
    rows = rows if isinstance(rows, list) else [rows]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


class ServingFormat:
    """The files of `kbsim serve run`."""

    name = "serving"

    def __init__(self, number: int, count: int) -> None:
        self.model = as_json(MODEL)

    def _case(self, files: dict[str, bytes], *arguments: str) -> Case:
        common = ("serve", "run", "--model", "m.json", "-c", "npu_mobile", "--check-steps", "0")
        return Case((*common, *arguments), {"m.json": self.model, **files})

    def _load(self, dataset: str, name: str, data: bytes, *more: str) -> Case:
        return self._case({name: data}, "--dataset-name", dataset, "--dataset-path", name, *more)

    def _fleet(self, data: bytes, *more: str) -> Case:
        return self._case(
            {"f.yaml": data, "l.jsonl": as_lines(ROWS[:2])}, "--dataset-path", "l.jsonl", "--fleet", "f.yaml", *more
        )

    def _routing(self, data: bytes, *more: str) -> Case:
        return self._case(
            {"r.yaml": data, "l.jsonl": as_lines(ROWS[:2])}, "--dataset-path", "l.jsonl", "--routing", "r.yaml", *more
        )

    def sound(self) -> list[Case]:
        """Every kind of file."""
        return [
            self._load("custom", "l.jsonl", as_lines(ROWS)),
            self._load("custom", "l.csv", as_csv(ROWS)),
            self._load("burstgpt", "b.csv", as_csv(BURSTS)),
            self._load("sharegpt", "s.json", as_json(TALKS)),
            self._fleet(as_yaml(FLEET)),
            self._routing(as_yaml(SHARES)),
        ]

    def mutated(self, rng: Random) -> Case:
        """One of them changed."""
        kind = rng.choice(("lines", "lines", "table", "bursts", "talks", "fleet", "fleet", "routing"))
        more = rng.choice(((), ("--json",), ("--rows", "rows.csv"), ("--request-rate", "100")))
        if kind in ("fleet", "routing"):
            data = text_of(rng, changed(rng, FLEET if kind == "fleet" else SHARES, ("tp", "pp", "dp", "runtime")), ".yaml")
            return self._fleet(data, *more) if kind == "fleet" else self._routing(data, *more)
        base = {"bursts": BURSTS, "talks": TALKS}.get(kind, ROWS)
        made = changed(rng, base, ("ttft_target_ms", "abort_ms", "adapter"))
        if kind == "talks":
            return self._load("sharegpt", "s.json", text_of(rng, made, ".json"), *more)
        table = kind != "lines" and isinstance(made, list)
        data = as_csv(made) if table else as_lines(made)
        data = bytes_changed(rng, data) if rng.random() < 0.15 else data
        if kind == "bursts":
            return self._load("burstgpt", "b.csv", data, *more)
        return self._load("custom", "l.csv" if table else "l.jsonl", data, *more)

    def readers(self) -> list[tuple[Case, str]]:
        """Each reader once."""
        names = ("l.jsonl", "l.csv", "b.csv", "s.json", "f.yaml", "r.yaml")
        return list(zip(self.sound(), names, strict=True))


class RuntimeFormat:
    """Runtime profiles, under one step of a language model."""

    name = "runtime"

    def __init__(self, number: int, count: int) -> None:
        folder = importlib.resources.files("kernbench.configs") / "runtimes"
        files = sorted(one.name for one in folder.iterdir() if one.name.endswith(".yaml"))
        self.bases = [yaml.safe_load((folder / name).read_text(encoding="utf-8")) for name in files]
        self.keys = sorted({key for base in self.bases for key in base})
        self.model = as_json(MODEL)

    def _case(self, data: bytes, *more: str) -> Case:
        arguments = ("llm", "--model", "m.json", "-c", "a100", "--runtime", "r.yaml", "--tokens", "1", "--prompt", "5", *more)
        return Case(arguments, {"r.yaml": data, "m.json": self.model})

    def sound(self) -> list[Case]:
        """Two profiles."""
        return [self._case(as_yaml(base)) for base in self.bases[:2]]

    def mutated(self, rng: Random) -> Case:
        """A changed profile."""
        made = changed(rng, rng.choice(self.bases), self.keys)
        return self._case(text_of(rng, made, ".yaml"), *rng.choice(((), ("--json",))))

    def readers(self) -> list[tuple[Case, str]]:
        """The one reader."""
        return [(self.sound()[0], "r.yaml")]
