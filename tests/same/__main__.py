"""`python -m tests.same`: compares what the product says now with the recorded manifest; exit code 1 where that differs."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.golden.test_model_cases import CASES as MODEL_CASES
from tests.same import manifest
from tests.same.commands import command_items
from tests.same.goldens import case_items, golden_items
from tests.same.inputs import write_inputs
from tests.same.items import Item
from tests.same.runner import Ran, run_items
from tests.same.traces import trace_items


def all_items(cases: Path = MODEL_CASES) -> list[Item]:
    """Every item that can be run here, by name; AssertionError where two have one name."""
    found = [*case_items(cases), *command_items(), *golden_items(), *trace_items()]
    if importlib.util.find_spec("onnx") is None:
        found = [one for one in found if not needs_onnx(one)]
    names = {one.name: one for one in found}
    assert len(names) == len(found), "two items have one name"
    return [names[name] for name in sorted(names)]


def needs_onnx(item: Item) -> bool:
    return any(command[0] == "onnx" for command in item.commands)


def chosen(names: Sequence[str], pattern: str) -> set[str]:
    """Names with the pattern in them; `*`, `?` and `[...]` as in a shell."""
    return {name for name in names if fnmatchcase(name, f"*{pattern}*")}


def surroundings() -> dict[str, str]:
    """The environment of the commands: ours, without what is the user's own. KERNBENCH_... are passed on."""
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "KBSIM_DEBUG")}
    return {"KERNBENCH_CACHE": "off", **environment, "XDG_CONFIG_HOME": os.devnull}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.same", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="items with this in their names: trace/rows, run/*split")
    parser.add_argument("--write", action="store_true", help="record what is said now")
    parser.add_argument("--list", action="store_true", help="print the names and run none")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="processes")
    parser.add_argument("--inputs", metavar="DIR", type=Path, help="write the inputs there, to run an item's commands by hand")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep what was hashed there: compare two folders with diff -r")
    parser.add_argument("--cases", metavar="FILE", type=Path, default=MODEL_CASES, help="model_cases.jsonl (%(default)s)")
    parser.add_argument("--manifest", metavar="FILE", type=Path, default=manifest.FILE, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.inputs:
        asked.inputs.mkdir(parents=True)
        write_inputs(asked.inputs, asked.cases)
        return 0
    items = all_items(asked.cases)
    names = chosen([one.name for one in items], asked.only)
    items = [one for one in items if one.name in names]
    if asked.list:
        print(*(one.name for one in items), sep="\n")
        return 0
    started = time.monotonic()
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
    ran = run_items(items, asked.cases, asked.jobs, surroundings(), lambda one: keep(asked.keep, one))
    return record(asked, ran) if asked.write else compare(asked, ran, time.monotonic() - started)


def keep(folder: Path | None, ran: Ran) -> None:
    if folder is not None:
        file = folder / ran.item.name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(ran.data)


def missing(cases: Path) -> list[str]:
    """Beginnings of names that cannot be run here, each said."""
    found = []
    if not cases.exists():
        print(f"skipped: case/*: {cases} is not there")
        found.append("case/")
    if importlib.util.find_spec("onnx") is None:
        print("skipped: *onnx*: the package onnx is not installed")
        found += ["command/onnx", "golden/onnx"]
    return found


def record(asked: argparse.Namespace, ran: Sequence[Ran]) -> int:
    """Write the manifest; items that were not asked for, or cannot be run here, stay as they are."""
    wrong = [f"{one.item.name}\n    {one.wrong}" for one in ran if one.wrong]
    if wrong:
        print(f"nothing is written: {len(wrong)} items are wrong in themselves", *wrong, sep="\n")
        return 1
    before = manifest.read(asked.manifest)
    absent = tuple(missing(asked.cases))
    kept = {name: line for name, line in before.items() if asked.only and not chosen([name], asked.only)}
    kept |= {name: line for name, line in before.items() if absent and name.startswith(absent)}
    manifest.write(kept | {one.item.name: one.found for one in ran}, asked.manifest)
    print(f"{asked.manifest}: {len(ran)} items written, {len(kept)} kept")
    return 0


def compare(asked: argparse.Namespace, ran: Sequence[Ran], seconds: float) -> int:
    """Print what differs."""
    before = manifest.read(asked.manifest)
    told = manifest.differences(before, ran)
    absent = tuple(missing(asked.cases))
    gone = chosen(list(before), asked.only) - {one.item.name for one in ran}
    told += [f"{name}\n    is in the manifest, but no item" for name in sorted(gone) if not name.startswith(absent or "\0")]
    if not ran and not told:
        print(f"no item has {asked.only!r} in its name: see --list")
        return 1
    for one in told:
        print(one)
    if told:
        print(f"\n{len(told)} of {len(ran)} items differ ({seconds:.0f} s). Their commands run in the folder that")
        print("`python -m tests.same --inputs DIR` makes. If the results are meant to change: --write, and look at the diff.")
        return 1
    print(f"{len(ran)} items are the same ({seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
