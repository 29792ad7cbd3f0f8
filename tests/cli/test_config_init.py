"""`kbsim config init` and `kbsim config keys`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.config import load_config
from kernbench.config.document import MACHINE_BYTES, read_document
from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_pinned
from tests.schemas import validator_of_text


@pytest.mark.parametrize("kind", ["npu", "system"])
def test_init_writes_a_machine_that_is_valid_and_fits_its_schema(kind: str, kbsim: Kbsim) -> None:
    said = kbsim("config", "init", "mine.yaml", "--kind", kind)
    assert said.code == 0, said.err
    assert kbsim("config", "check", "mine.yaml").code == 0
    first = Path("mine.yaml").read_text().split("\n")[0]
    schema = Path(first.removeprefix("# yaml-language-server: $schema="))
    assert schema.name == f"kernbench-{kind}-1.schema.json"
    plain = json.loads(json.dumps(read_document("mine.yaml", MACHINE_BYTES).data, default=float))
    validator_of_text(schema.read_text()).validate(plain)


@pytest.mark.parametrize("kind", ["npu", "system"])
def test_a_machine_of_init_has_no_warnings_until_it_is_edited(kind: str, kbsim: Kbsim) -> None:
    assert kbsim("config", "init", "mine.yaml", "--kind", kind).code == 0
    said = kbsim("config", "check", "mine.yaml")
    assert said.code == 0 and said.err == ""


def test_init_from_a_preset_is_that_preset(kbsim: Kbsim) -> None:
    said = kbsim("config", "init", "mine.yaml", "--from", "npu_server", "--json")
    assert json.loads(said.out) == {"status": "done", "file": "mine.yaml", "schema": "kernbench-npu-1.schema.json"}
    assert load_config("mine.yaml").digest() == load_config("npu_server").digest()


def test_init_takes_overrides_and_a_schema_of_the_user_s(kbsim: Kbsim) -> None:
    schema = "https://example.org/npu.json"
    kbsim("config", "init", "mine.yaml", "--from", "npu_server", "--set", "dram.channels=8", "--schema", schema)
    assert Path("mine.yaml").read_text().startswith(f"# yaml-language-server: $schema={schema}\n")
    assert not Path("kernbench-npu-1.schema.json").exists()
    assert load_config("mine.yaml").dram.channels == 8


def test_init_without_a_file_writes_to_standard_output(kbsim: Kbsim) -> None:
    said = kbsim("config", "init", "--from", "npu_mobile")
    Path("out.yaml").write_text(said.out)
    assert load_config("out.yaml").digest() == load_config("npu_mobile").digest()


def test_init_replaces_no_file_unless_told(kbsim: Kbsim) -> None:
    Path("mine.yaml").write_text("mine")
    said = kbsim("config", "init", "mine.yaml")
    assert (said.code, said.err) == (
        2,
        'error: kbsim config init: FILE = "mine.yaml", but this file exists; take another name, or replace it with --force\n',
    )
    assert Path("mine.yaml").read_text() == "mine"
    assert kbsim("config", "init", "mine.yaml", "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("init", "--kind", "gpu"), '--kind = "gpu", but it must be one of npu, system'),
        (("init", "--kind", "npu", "--from", "single_cube"), "a single NPU is expected"),
        (("init", "mine.json"), "the file name must end in .yaml or .yml"),
        (("keys", "bnk"), "did you mean bank?"),
        (("keys", "--kind", "gpu"), "it must be one of npu, system"),
    ],
)
def test_mistakes_are_refused(arguments: tuple[str, ...], says: str, kbsim: Kbsim) -> None:
    said = kbsim("config", *arguments)
    assert said.code == 2 and says in said.err, said.err


@pytest.mark.parametrize("width", WIDTHS)
def test_keys_are_as_pinned(width: int, kbsim: Kbsim) -> None:
    check_pinned(kbsim, GOLDEN / "config_keys" / "spm", ("config", "keys", "spm", "--kind", "npu"), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_longer_than_the_terminal(width: int, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for pattern in ("", "dram", "channels.*", "*.engines", "energy"):
        said = kbsim("config", "keys", *([pattern] if pattern else []))
        assert said.code == 0 and max(map(len, said.out.split("\n"))) <= width, pattern


def test_keys_as_json(kbsim: Kbsim) -> None:
    found = json.loads(kbsim("config", "keys", "num_banks", "--json").out)["keys"]
    assert [(key["machine"], key["path"]) for key in found] == [
        ("kernbench/npu/1", "spm.num_banks"),
        ("kernbench/system/1", "pe.spm.num_banks"),
    ]
    assert set(found[0]) == {"machine", "path", "section", "kind", "default", "unit", "allowed", "choices", "meaning"}
