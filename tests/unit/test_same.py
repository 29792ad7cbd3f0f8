"""`make same`: a handful of its items, and that a changed byte is reported with the command that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.same import manifest
from tests.same.__main__ import all_items, main
from tests.same.runner import settled

FEW = "golden/numbers"


def test_a_few_items_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", FEW, "--jobs", "1"]) == 0, capsys.readouterr().out
    assert "8 items are the same" in capsys.readouterr().out


def test_changed_bytes_and_lost_and_new_items_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recorded = manifest.read()
    name = "golden/numbers.3"
    recorded[name] = recorded[name]._replace(sha256="0" * 16)
    recorded["golden/numbers.99"] = recorded.pop("golden/numbers.4")
    changed = tmp_path / "manifest.txt"
    manifest.write(recorded, changed)
    before = changed.read_text(encoding="utf-8")
    assert main(["--only", FEW, "--jobs", "1", "--manifest", str(changed)]) == 1
    said = capsys.readouterr().out
    assert f"{name}\n    now " in said and "was 0000000000000000" in said
    assert "    kbsim run number3.json -c number3.machine.json --json\n" in said
    assert "golden/numbers.4\n    is not in the manifest" in said
    assert "golden/numbers.99\n    is in the manifest, but no item" in said
    assert "3 of 8 items differ" in said and changed.read_text(encoding="utf-8") == before


def test_every_item_is_recorded_once() -> None:
    items = {one.name for one in all_items()}
    recorded = set(manifest.read())
    assert items <= recorded and all(name.startswith("case/") for name in recorded - items)
    assert sum(name.startswith("case/") for name in recorded) == 75


def test_only_versions_and_the_machine_of_a_trace_are_left_out() -> None:
    trace = b'{"event_type":"TRACE_META","t_cycle":0,"version":"1.1","sim_id":"a","level":"full"}\n{"t_cycle":1}\n'
    assert settled(trace) == b'{"event_type": "TRACE_META", "t_cycle": 0, "level": "full"}\n{"t_cycle":1}\n'
    assert settled(trace.replace(b"1.1", b"1.2")) == settled(trace)
    assert settled(trace.replace(b'"t_cycle":1', b'"t_cycle":2')) != settled(trace)
    assert settled(b'{"model_version": 1, "version": "1.0"}') == b'{"model_version": 1, "version": null}'


def test_a_name_that_no_item_has_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing/*"]) == 1
    assert capsys.readouterr().out.endswith("no item has 'nothing/*' in its name: see --list\n")
