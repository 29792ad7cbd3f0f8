"""What the suite pins, as JSON of the same inputs, and the published cases of the model."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

from tests.cli.pinned import GOLDEN, WIDTHS, pinned_file
from tests.golden.test_golden_numbers import TABLE
from tests.golden.test_model_cases import CASES as MODEL_CASES
from tests.golden.test_trace_goldens import CASES
from tests.same.inputs import machine_of
from tests.same.items import Command, Item, item

#: Modules with pinned commands: the folder of their texts, and of their inputs.
PINNED = {
    "test_cli_golden": (".", "."),
    "test_cli_bench_golden": ("bench", "."),
    "test_llm_cli": ("llm", "."),
    "test_onnx_cli": ("onnx", "."),
    "test_cli_topology": ("topology", "."),
    "test_cli_trace": ("trace", "trace"),
    "test_cli_trace_compare": ("trace_compare", "compare"),
    "test_cli_why": ("why", "why"),
}
TILES = "run tiles.json -c small.yaml -q --trace"
#: How the traces are made that these commands read.
TRACES = {
    "trace": {
        "tiles.jsonl": f"{TILES} tiles.jsonl --trace-level full --trace-window 256",
        "low.jsonl": f"{TILES} low.jsonl --trace-window 256",
        "each.jsonl": f"{TILES} each.jsonl --trace-level access --trace-window 256",
    },
    "why": {
        "tiles.jsonl": f"{TILES} tiles.jsonl --trace-level full",
        "stuck.jsonl": "run stuck.json -c small.yaml -q --trace stuck.jsonl --trace-level full",
    },
    "compare": {
        "tiles.jsonl": f"{TILES} tiles.jsonl --trace-window 128",
        "narrow.jsonl": f"{TILES} narrow.jsonl --trace-window 128 --set dram.channels=1 --set noc.dram_at=[[0,1]]",
        "longer.jsonl": "run longer.json -c small.yaml -q --trace longer.jsonl --trace-window 128",
        "stuck.jsonl": "run stuck.json -c small.yaml -q --trace stuck.jsonl --trace-window 128",
        "clash.jsonl": "run clash.json -c small.yaml -q --set spm.check_overlap=error --trace clash.jsonl --trace-window 128",
    },
}
#: Pinned commands on files that are damaged by hand or made by a fixture, which say nothing of the core, and those that print
#: no results as JSON.
LEFT_OUT = ("broken.jsonl", "diff_hostile", "topology compile", "trace export", "--watch")


def golden_items() -> Iterator[Item]:
    for module, (texts, folder) in PINNED.items():
        commands: dict[str, Command] = importlib.import_module(f"tests.cli.{module}").COMMANDS
        for name, command in commands.items():
            found = _pinned(texts, folder, name, command)
            if found is not None:
                yield found
    for i, _ in enumerate(TABLE):
        yield item(f"golden/numbers.{i}", f"run number{i}.json -c {machine_of(f'number{i}')} --json")
    for name in CASES:
        yield item(f"golden/traces.{name}", f"run {name}.json -c {machine_of(name)} --json")


def _pinned(texts: str, folder: str, name: str, command: Command) -> Item | None:
    """A pinned command with `--json`; None for refusals, which have no JSON, and those left out."""
    if folder in TRACES:
        command = command if command[0] in ("trace", "whatif") else ("trace", *command)
    elif command[0] in ("run", "step", "program") and texts == ".":
        command = (*command, "--config", "small.yaml")
    head = pinned_file(GOLDEN / texts / name, WIDTHS[0]).read_text(encoding="utf-8").partition("\n")[0]
    said = (name, " ".join(command[:2]), *command)
    if head.endswith("exit code 2") or any(word in said for word in LEFT_OUT):
        return None
    made = [tuple(how.split()) for file, how in TRACES.get(folder, {}).items() if file in command]
    where = "cli" if texts == "." else texts
    return item(f"golden/{where}.{name}", *made, (*command, "--json"), folder=folder)


def case_items(cases: Path = MODEL_CASES) -> Iterator[Item]:
    """The published cases; none where their file is missing."""
    if cases.exists():
        for line in cases.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            name, refused = case["name"], case["expected"]["status"] == "refused"
            yield item(f"case/{name}", f"run {name}.json -c {machine_of(name)} --json", folder="cases", refused=refused)
