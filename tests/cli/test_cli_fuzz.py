"""`kbsim fuzz`: what is told, written and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Kbsim

#: Two stores to the same bytes of DRAM, the second after a load alone.
STORE = {"opcode": "DMA_STORE_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 256, "dram_addr": 0}
RACE = [
    {**STORE, "spm_bank": 0, "spm_offset": 0},
    {**STORE, "opcode": "DMA_LOAD_TILE", "dram_addr": 8192, "num_elements": 16384, "spm_bank": 0, "spm_offset": 4096},
    {**STORE, "spm_bank": 4, "spm_offset": 0, "deps_before": [1]},
]
COMMON = ("-c", "npu_mobile", "--runs", "8")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, deps in (("race", [1]), ("right", [0, 1])):
        cmdq = [*RACE[:2], {**RACE[2], "deps_before": deps}]
        whole = {"metadata": {"version": "1.0", "name": name}, "cmdq": cmdq}
        Path(f"{name}.json").write_text(json.dumps(whole), encoding="utf-8")
    return tmp_path


def test_a_race_is_told_saved_and_replayed(programs: Path, kbsim: Kbsim) -> None:
    said = kbsim("fuzz", "race.json", *COMMON, "--save", "out", "--junit", "report.xml")
    assert said.code == 1
    assert "1 finding" in said.out and "entry 2 (DMA_STORE_TILE)" in said.out
    assert "missing wait: entry 2 does not wait for entry 0; add it to deps_before" in " ".join(said.out.split())
    (case,) = ElementTree.parse("report.xml").iter("testcase")
    failure = case.find("failure")
    assert failure is not None and "entry 2" in (failure.text or "")
    (saved,) = Path("out").iterdir()
    again = kbsim("fuzz", "--replay", str(saved))
    assert again.code == 1 and "the finding is there again, exactly: race" in again.out
    Path("race.json").write_text(Path("right.json").read_text(encoding="utf-8"), encoding="utf-8")
    mended = kbsim("fuzz", "--replay", str(saved))
    assert mended.code == 0 and "the finding is not there any more" in mended.out


def test_a_right_program_passes(programs: Path, kbsim: Kbsim) -> None:
    said = kbsim("fuzz", "right.json", *COMMON, "--junit", "report.xml")
    assert said.code == 0 and said.out.startswith("nothing found  8 runs, 1 order, 0 findings, seed 0")
    assert ElementTree.parse("report.xml").getroot().get("failures") == "0"


def test_json_is_the_same_for_a_seed(programs: Path, kbsim: Kbsim) -> None:
    one, two, other = (kbsim("fuzz", "race.json", *COMMON, "--seed", seed, "--json").out for seed in ("3", "3", "4"))
    found = json.loads(one)
    assert one == two and one != other
    assert found["schema"] == "kernbench/fuzz/1" and found["runs"] <= 8
    assert all(finding["schema"] == "kernbench/fuzz-finding/1" for finding in found["findings"])


def saved(kbsim: Kbsim) -> dict[str, Any]:
    assert kbsim("fuzz", "race.json", *COMMON, "--save", "out", "--quiet").code == 1
    (path,) = Path("out").iterdir()
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return plain


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "schema": ({"schema": "kernbench/fuzz-finding/9"}, "it must be kernbench/fuzz-finding/1"),
    "kind": ({"draws": [{"kind": "colour", "name": "x", "ordinal": 0, "value": 1}]}, "kind must be one of"),
    "value": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": -1}]}, "value more than 0"),
    "zero": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": 0}]}, "value more than 0"),
    "huge": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": 1 << 62}]}, "value more than 0"),
    "many": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": 1}] * 5000}, "at most 4096"),
    "target": ({"target": {"target": 7}}, "it must have target, config"),
    "ranges": ({"ranges": {"latency": -1, "start": 0, "slowest": "1/4", "kinds": []}}, "it must be 0 to"),
    "slowest": ({"ranges": {"latency": 1, "start": 0, "slowest": "0/0", "kinds": []}}, "a fraction like 1/4"),
    "digest": ({"digest": 5}, "the file is not a finding of kbsim fuzz"),
}


def test_files_that_are_no_findings_are_refused(programs: Path, kbsim: Kbsim) -> None:
    plain = saved(kbsim)
    for name, (change, rule) in HOSTILE.items():
        Path("bad.json").write_text(json.dumps(plain | change), encoding="utf-8")
        said = kbsim("fuzz", "--replay", "bad.json")
        assert said.code == 2 and rule in " ".join(said.err.split()), name
    unnamed = {"draws": [{"kind": "latency", "name": "nothing", "ordinal": 0, "value": 1}]}
    Path("other.json").write_text(json.dumps(plain | unnamed), encoding="utf-8")
    assert kbsim("fuzz", "--replay", "other.json").code == 0, "a delay of something that is not there changes nothing"
    for text in ("", "[]", "{", "[" * 100_000, '{"schema": 1}'):
        Path("bad.json").write_text(text, encoding="utf-8")
        assert kbsim("fuzz", "--replay", "bad.json").code == 2


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((), "it needs a TARGET, or --replay FILE"),
        (("race.json", "--vary", "latency,colour"), "it must be one of latency, start"),
        (("race.json", "--slowest", "2"), "it must be 1/1024 to 1"),
        (("race.json", "--replay", "race.json"), "a saved finding already has its target"),
        (("nothing.json",), "nothing.json"),
        (("all_reduce", "--set", "ranks=1", "-c", "single_cube"), "at least 2"),
    ],
)
def test_mistakes_are_refused(programs: Path, kbsim: Kbsim, arguments: tuple[str, ...], rule: str) -> None:
    said = kbsim("fuzz", *arguments)
    assert said.code == 2 and rule in " ".join(said.err.split())


def test_a_target_that_does_not_end_without_delays_is_refused(programs: Path, kbsim: Kbsim) -> None:
    said = kbsim("fuzz", "race.json", *COMMON, "--set", "max_cycles=10")
    assert said.code == 2 and "its run without draws is aborted" in " ".join(said.err.split())
