"""The JSON Schema of specs takes what `load_spec` takes, and refuses what has a wrong form."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kernbench.common.errors import InputError
from kernbench.sweep.json_schema import sweep_json_schema
from kernbench.sweep.spec.load import load_spec
from tests.cli.samples import write_samples

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "sweep.md"
FULL: dict[str, Any] = {
    "schema": "kernbench/sweep/1",
    "name": "full",
    "targets": [
        "tiles.json", {"program": "tiles.json", "label": "again"}, {"workload": "llama2-7b-decode"},
        {"llm": "llama-2-7b", "params": {"phase": "decode"}}, {"bench": "reduce", "params": {"rows": 64}, "verify": True},
        {"ccl": "all_reduce", "params": {"algo": "ring", "size": "64 KiB"}, "verify": True},
    ],
    "machine": "npu_server",
    "set": {"dram.t_setup_cycles": 80},
    "axes": {"dram.channels": [4, 8], "te.macs_per_cycle": {"from": 64, "to": 1024, "count": 3, "scale": "log"},
             "freq_ghz": {"from": 1, "to": 2, "step": 0.5}},
    "zip": [{"ve.engines": [1, 2], "te.engines": [1, 2]}],
    "where": ["te.engines <= 2 * ve.engines"],
    "sample": {"sobol": 4, "seed": 1},
    "limits": {"seconds": 30, "memory": "2 GiB"},
    "budget": {"points": 10, "seconds": 60},
    "goals": {"ns": "min", "te_busy": "max"},
    "invalid": "skip",
}  # fmt: skip
WRONG: list[tuple[tuple[Any, ...], Any]] = [
    (("schema",), "kernbench/sweep/2"), (("no_such",), 1), (("targets",), []), (("targets", 1), {"label": "x"}),
    (("targets", 1), {"program": "tiles.json", "params": {}}), (("axes", "dram.channels"), 4), (("axes", "dram.channels"), []),
    (("axes", "freq_ghz"), {"from": 1}), (("axes", "freq_ghz"), {"from": 1, "to": 2, "by": 1}), (("zip",), [{}]),
    (("sample",), {"seed": 1}), (("sample",), {"sobol": 0}), (("limits",), {"time": 3}), (("budget",), {"points": 0}),
    (("goals",), {"speed": "max"}), (("goals",), {"ns": "less"}), (("invalid",), "drop"),
]  # fmt: skip


def validator() -> Any:
    schema = sweep_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_what_is_read_is_valid(tmp_path: Path) -> None:
    documents = re.findall(r"```yaml\n(schema: kernbench/sweep/1\n.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    assert documents
    for text in documents:
        validator().validate(yaml.safe_load(text))
    validator().validate(FULL)
    write_samples(tmp_path)
    spec = tmp_path / "full.yaml"
    spec.write_text(yaml.safe_dump(FULL, sort_keys=False), encoding="utf-8")
    assert load_spec(spec).name == "full"


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda one: repr(one)[:40])
def test_what_has_a_wrong_form_is_refused_by_both(path: tuple[Any, ...], value: Any, tmp_path: Path) -> None:
    data = copy.deepcopy(FULL)
    at: Any = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    assert not validator().is_valid(data)
    write_samples(tmp_path)
    spec = tmp_path / "wrong.yaml"
    spec.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    with pytest.raises(InputError):
        load_spec(spec)
