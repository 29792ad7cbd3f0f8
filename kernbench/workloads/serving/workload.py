"""The requests of a run: their lengths are drawn, or come from a file."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.files import read_bounded, text_lines
from kernbench.common.spelling import meant, nearest
from kernbench.workloads.serving.arrivals import Arrivals
from kernbench.workloads.serving.draws import Draws
from kernbench.workloads.serving.request import Request

Dataset = Literal["random", "sharegpt", "burstgpt", "prefix_repetition", "custom"]
DATASETS: tuple[Dataset, ...] = ("random", "sharegpt", "burstgpt", "prefix_repetition", "custom")
MAX_TOKENS = 1 << 24  #: limit of the tokens of one request
MAX_LINE = 1 << 20  #: [byte] limit of a line of a file
SHAREGPT_BYTES = 1 << 30  #: [byte] limit of a file of conversations
_BURSTGPT = ("Timestamp", "Request tokens", "Response tokens")
#: Names of fields in traces of other tools, by the fields of the dataset custom.
_ALIKE = {
    "input_tokens": ("prompt", "prompt_len", "prompt_tokens", "prompt_length", "input", "input_len", "input_length", "isl",
                     "ContextTokens", "num_prefill_tokens", "context_tokens", "Request tokens"),
    "output_tokens": ("output", "output_len", "output_length", "osl", "completion_tokens", "GeneratedTokens",
                      "generated_tokens", "num_decode_tokens", "response_tokens", "max_tokens", "Response tokens"),
    "arrival_s": ("arrival", "arrival_time", "arrived_at", "arrival_ms", "timestamp", "TIMESTAMP", "Timestamp", "time", "t"),
}  # fmt: skip
TOKEN_BYTES = 4  #: [byte] of text for each token, if a file has text instead of counts


def dataset_of(path: str | os.PathLike[str] | None) -> Dataset:
    """The dataset that a file probably holds, by its ending and the first line of a table; `random` without a file."""
    if path is None:
        return "random"
    name = os.fspath(path)
    if name.lower().endswith(".json"):
        return "sharegpt"
    if name.lower().endswith(".csv"):
        if not os.path.isfile(name):  # a pipe has its lines only once
            return "custom"
        try:
            head = next(text_lines(name, MAX_LINE), "")
        except InputError:  # the reader of the file reports the error
            return "custom"
        return "burstgpt" if all(column in head for column in _BURSTGPT) else "custom"
    return "custom"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests; the fields have the names of the options of `vllm bench serve`.

    `dataset_name`: `random` draws lengths around `random_input_len` and `random_output_len`, each within its
    `random_range_ratio`, after a common prefix of `random_prefix_len` tokens. `prefix_repetition` gives each of
    `prefix_repetition_num_prefixes` prefixes to the same number of requests. `sharegpt` and `burstgpt` read files of these
    names. `custom` reads any JSON Lines or CSV file with `input_tokens` and `output_tokens`, and optionally `arrival_s`,
    `prefix` with `prefix_tokens`, `priority`, `ttft_target_ms`, `abort_ms` and `adapter`. Arrivals of a file are replayed
    unless `arrivals` has a rate. `adapters`: each request has one of this number of LoRA adapters, which the file states or the
    seed selects.

    >>> from kernbench.serving import Arrivals, Workload
    >>> load = Workload(num_prompts=2, random_input_len=64, random_output_len=8, arrivals=Arrivals(request_rate=10), seed=1)
    >>> [(request.prompt, request.output) for request in load.requests()]
    [(64, 8), (64, 8)]
    """

    dataset_name: Dataset = "random"
    dataset_path: str | os.PathLike[str] | None = None
    num_prompts: int | None = None
    arrivals: Arrivals = field(default_factory=Arrivals)
    seed: int = 0
    random_input_len: int = 1024
    random_output_len: int = 128
    random_range_ratio: float = 0.0
    random_prefix_len: int = 0
    prefix_repetition_prefix_len: int = 256
    prefix_repetition_suffix_len: int = 256
    prefix_repetition_num_prefixes: int = 10
    prefix_repetition_output_len: int = 128
    sharegpt_output_len: int | None = None
    adapters: int = 0

    def __post_init__(self) -> None:
        if self.dataset_name not in DATASETS:
            rule = f"it must be one of {', '.join(DATASETS)}"
            raise InputError(Problem("workload", rule, "dataset_name", self.dataset_name, meant(self.dataset_name, DATASETS)))
        leasts = {
            "num_prompts": 1, "random_input_len": 1, "random_output_len": 1, "random_prefix_len": 0,
            "prefix_repetition_prefix_len": 1, "prefix_repetition_suffix_len": 1, "prefix_repetition_num_prefixes": 1,
            "prefix_repetition_output_len": 1, "sharegpt_output_len": 1, "seed": 0, "adapters": 0,
        }  # fmt: skip
        for name, least in leasts.items():
            value = getattr(self, name)
            if value is None and name in ("num_prompts", "sharegpt_output_len"):
                continue
            if type(value) is not int or not least <= value < 1 << 62:
                raise InputError(Problem("workload", f"it must be an integer of at least {least}", name, value))
        if not 0 <= self.random_range_ratio < 1:
            rule = "it must be at least 0 and less than 1"
            raise InputError(Problem("workload", rule, "random_range_ratio", self.random_range_ratio))
        drawn = self.dataset_name in ("random", "prefix_repetition")
        if drawn == (self.dataset_path is not None):
            why = "draws its lengths at random and reads no file" if drawn else "needs a file"
            rule = f"the dataset {self.dataset_name} {why}"
            path = self.dataset_path
            named = "" if path is None else dataset_of(path)
            remedy = f"for the file, name its dataset: --dataset-name {named}" if drawn else "add --dataset-path FILE"
            value = ABSENT if path is None else os.fspath(path)
            raise InputError(Problem("workload", rule, "" if path is None else "dataset_path", value, remedy))

    @property
    def count(self) -> int | None:
        """The number of requests that are drawn, or the largest number that is read; None for the whole file."""
        if self.dataset_name in ("random", "prefix_repetition") and self.num_prompts is None:
            return 1000
        return self.num_prompts

    def requests(self) -> Iterator[Request]:
        """The requests in the order of their arrivals. A file is read line by line."""
        rows = {
            "random": self._random, "prefix_repetition": self._repeated, "custom": self._custom, "sharegpt": self._sharegpt,
            "burstgpt": self._burstgpt,
        }[self.dataset_name]()  # fmt: skip
        rated = self.arrivals.ramp_up is not None or not math.isinf(self.arrivals.request_rate)
        count = self.count
        if rated and count is None:
            count = sum(1 for _ in self._again())
        times = self.arrivals.times_ns(count, self.seed) if count is not None and rated else None
        last = 0
        drawn = Draws(self.seed, 2)
        for number, row in enumerate(rows):
            if number == count:
                break
            arrival = row.pop("arrival_ns", 0) if times is None else next(times)
            row.pop("arrival_ns", None)
            if arrival < last:
                where = row.pop("where", "")
                rule = f"arrivals must not go back: the one before is at {last / 1e9:g} s"
                raise InputError(Problem(where, rule, "arrival_s", arrival / 1e9, "sort the file by arrival time"))
            last = arrival
            where = row.pop("where", "")
            if "adapter" not in row and self.adapters:
                row["adapter"] = drawn.below(self.adapters)
            elif row.get("adapter", -1) >= self.adapters:
                rule = f"it must be less than the number of adapters, {self.adapters} (--lora)"
                raise InputError(Problem(where, rule, "adapter", row["adapter"]))
            yield Request(number, arrival_ns=arrival, **row)

    def _again(self) -> Iterator[dict[str, Any]]:
        return {"custom": self._custom, "sharegpt": self._sharegpt, "burstgpt": self._burstgpt}[self.dataset_name]()

    def _random(self) -> Iterator[dict[str, Any]]:
        draws = Draws(self.seed, 0)
        ranges = []
        for length in (self.random_input_len, self.random_output_len):
            low = max(1, math.floor(length * (1 - self.random_range_ratio)))
            ranges.append((low, math.ceil(length * (1 + self.random_range_ratio))))
        shared = self.random_prefix_len
        prefix = (("random", shared),) if shared else ()
        while True:
            prompt, output = (low + draws.below(high + 1 - low) for low, high in ranges)
            yield {"prompt": shared + prompt, "output": output, "prefix": prefix}

    def _repeated(self) -> Iterator[dict[str, Any]]:
        prefix, suffix = self.prefix_repetition_prefix_len, self.prefix_repetition_suffix_len
        count = self.count or 0
        names = [number % self.prefix_repetition_num_prefixes for number in range(count)]
        draws = Draws(self.seed, 0)
        for last in range(count - 1, 0, -1):  # the shuffle of Fisher and Yates
            other = draws.below(last + 1)
            names[last], names[other] = names[other], names[last]
        for name in names:
            shared = ((name, prefix),)
            yield {"prompt": prefix + suffix, "output": self.prefix_repetition_output_len, "prefix": shared}

    def _rows(self, names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The location and the values by name of each row of a JSON Lines or CSV file."""
        path = Path(os.fspath(self.dataset_path or ""))
        kind = path.suffix.lower()
        if kind not in (".jsonl", ".csv"):
            raise InputError(
                Problem(str(path), "the file name must end in .jsonl or .csv", remedy="convert the file, or rename it")
            )
        yield from (_json_lines if kind == ".jsonl" else _csv_lines)(str(path), text_lines(path, MAX_LINE), names)

    def _custom(self) -> Iterator[dict[str, Any]]:
        rated = self.arrivals.ramp_up is not None or not math.isinf(self.arrivals.request_rate)
        for where, row in self._rows(("input_tokens", "output_tokens")):
            found: dict[str, Any] = {
                "where": where,
                "prompt": _count(where, row, "input_tokens"),
                "output": _count(where, row, "output_tokens"),
            }
            if _given(row, "arrival_s"):
                found["arrival_ns"] = round(_number(where, row, "arrival_s") * 1e9)
            elif not rated and (time := _alike("arrival_s", row)):
                remedy = "rename it to arrival_s, with times in seconds, or give --request-rate"
                rule = "the field is not read, so all requests would arrive at once"
                raise InputError(Problem(where, rule, time, remedy=remedy))
            if _given(row, "prefix") or _given(row, "prefix_tokens"):
                if not _given(row, "prefix") or not isinstance(row["prefix"], (str, int)):
                    rule = "it must be text or an integer beside prefix_tokens"
                    raise InputError(Problem(where, rule, "prefix", row.get("prefix")))
                tokens = _count(where, row, "prefix_tokens")
                if tokens > found["prompt"]:
                    rule = f"it must be at most input_tokens = {found['prompt']}"
                    raise InputError(Problem(where, rule, "prefix_tokens", tokens))
                found["prefix"] = ((row["prefix"], tokens),)
            if _given(row, "priority"):
                found["priority"] = _count(where, row, "priority", -(1 << 31))
            if _given(row, "adapter"):
                found["adapter"] = _count(where, row, "adapter", 0)
            for name in ("ttft_target", "abort"):
                if _given(row, f"{name}_ms"):
                    found[f"{name}_ns"] = round(_number(where, row, f"{name}_ms") * 1e6)
            yield found

    def _burstgpt(self) -> Iterator[dict[str, Any]]:
        names = _BURSTGPT
        first = None
        for where, row in self._rows(names):
            if _number(where, row, names[2]) == 0:  # a request that failed
                continue
            time = _number(where, row, names[0])
            first = time if first is None else first
            prompt, output = _count(where, row, names[1]), _count(where, row, names[2])
            yield {"where": where, "prompt": prompt, "output": output, "arrival_ns": round((time - first) * 1e9)}

    def _sharegpt(self) -> Iterator[dict[str, Any]]:
        path = os.fspath(self.dataset_path or "")
        content = read_bounded(path, SHAREGPT_BYTES, remedy="take a part of the file")
        try:
            plain = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(Problem(path, f"it must be JSON: {error}")) from None
        if not isinstance(plain, list):
            raise InputError(Problem(path, "it must be a list of conversations"))
        for number, one in enumerate(plain):
            where = f"{path}: [{number}]"
            turns = one.get("conversations") if isinstance(one, dict) else None
            if not isinstance(turns, list):
                raise InputError(Problem(where, "it must have a list of turns", "conversations", turns))
            if len(turns) < 2:
                continue
            lengths = []
            for place, turn in enumerate(turns[:2]):
                text = turn.get("value") if isinstance(turn, dict) else None
                if not isinstance(text, str):
                    raise InputError(Problem(where, "it must be text", f"conversations[{place}].value", text))
                lengths.append(-(-len(text.encode("utf-8", "replace")) // TOKEN_BYTES))
            prompt, output = lengths[0], self.sharegpt_output_len or lengths[1]
            # the conversations that vLLM's benchmark accepts
            if prompt >= 4 and output >= 4 and prompt <= 1024 and prompt + output <= 2048:
                yield {"where": where, "prompt": prompt, "output": output}


def _json_lines(path: str, lines: Iterator[str], names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(Problem(where, f"it must be a JSON object: {error}")) from None
        if not isinstance(row, dict):
            remedy = 'write {"input_tokens": 512, "output_tokens": 128}'
            raise InputError(Problem(where, "it must be a JSON object", remedy=remedy))
        _check_names(where, row, names)
        yield where, row


def _csv_lines(path: str, lines: Iterator[str], names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = csv.reader(lines)
    try:
        head = [name.strip() for name in next(rows, [])]
        _check_names(f"{path}:1", dict.fromkeys(head), names)
        for cells in rows:
            if not cells:
                continue
            where = f"{path}:{rows.line_num}"
            if len(cells) != len(head):
                raise InputError(Problem(where, f"it has {len(cells)} values, but the first line has {len(head)} names"))
            yield where, dict(zip(head, cells, strict=True))
    except csv.Error as error:
        raise InputError(Problem(f"{path}:{rows.line_num}", f"it must be CSV: {error}")) from None


def _check_names(where: str, row: dict[str, Any], names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in row]
    if missing:
        others = [one for one in row if one not in names]
        renamed = [f"{near} to {name}" for name in missing if (near := _alike(name, row) or nearest(name, others))]
        remedy = f"rename {' and '.join(renamed)}" if renamed else ""
        many = f"the fields {' and '.join(missing)} are missing" if len(missing) > 1 else f"the field {missing[0]} is missing"
        raise InputError(Problem(where, many, remedy=remedy))


def _alike(name: str, row: dict[str, Any]) -> str:
    """The field of another tool that a row has in the place of a field; empty if there is none."""
    return next((one for one in _ALIKE.get(name, ()) if one in row), "")


def _given(row: dict[str, Any], name: str) -> bool:
    return row.get(name) not in (None, "")


def _number(where: str, row: dict[str, Any], name: str) -> float:
    """A finite number of at least 0."""
    value = row[name]
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 <= found < 1e9:
        raise InputError(Problem(where, "it must be a number from 0 to 1e9", name, value))
    return found


def _count(where: str, row: dict[str, Any], name: str, least: int = 1) -> int:
    value = row.get(name)
    try:
        found = None if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # what is no number is caught
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or not least <= found <= MAX_TOKENS or found != int(found):
        raise InputError(Problem(where, f"it must be an integer from {least} to {MAX_TOKENS}", name, value))
    return int(found)
