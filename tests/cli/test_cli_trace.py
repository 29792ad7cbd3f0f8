"""`kbsim trace summary` and `kbsim trace validate`: what people see, at 80 and 120 columns, and what programs get."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml

from kernbench.trace import metrics, open_trace
from kernbench.trace.events import Record
from kernbench.trace.metric.tables import csv_text, rows, to_dict
from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned
from tests.oracles.ref_trace import reference_trace
from tests.trace_samples import UNITS, lawful, lines, meta, record, write_trace

PINNED = GOLDEN / "trace"
HOSTILE = "\x1b[2J\x1b]0;title\x07 \u202egnp.exe \x00\r\n" + "<script>" * 100 + "[bold]漢字"
COMMANDS = {
    "trace_summary": ("summary", "hand.jsonl"),
    "trace_summary_tiles": ("summary", "tiles.jsonl"),
    "trace_summary_low": ("summary", "low.jsonl"),
    "trace_summary_access": ("summary", "each.jsonl"),
    "trace_summary_broken": ("summary", "broken.jsonl"),
    "trace_summary_hostile": ("summary", "hostile.jsonl"),
    "trace_validate": ("validate", "hand.jsonl", "tiles.jsonl", "broken.jsonl", "wrong.jsonl", "no.jsonl"),
    "trace_validate_hostile": ("validate", "hostile.jsonl", "--limit", "4"),
}


@pytest.fixture(autouse=True, scope="module")
def tiles_trace() -> dict[str, bytes]:
    """The reference trace of the sample program `tiles`, at each level: made once, it takes a while."""
    return {}


@pytest.fixture(autouse=True)
def _files(_place: None, tiles_trace: dict[str, bytes]) -> None:
    """Traces in the current directory."""
    if not tiles_trace:
        machine = yaml.safe_load(Path("small.yaml").read_text(encoding="utf-8"))
        program = json.loads(Path("tiles.json").read_text(encoding="utf-8"))
        for i, entry in enumerate(program["cmdq"]):
            entry |= {"phase": "attention" if i < 11 else "mlp", "layer_id": i // 4, "token_idx": i // 9}
        for name, level in (("tiles", "full"), ("low", "summary"), ("each", "access")):
            text = reference_trace(machine, program, level=level, window=256, meta={"sim_version": "0"})
            tiles_trace[name] = b"".join(line + b"\n" for line in text)
    for name, data in tiles_trace.items():
        Path(f"{name}.jsonl").write_bytes(data)
    write_trace("hand.jsonl", lawful())
    Path("broken.jsonl").write_bytes(tiles_trace["tiles"][:60_000])
    Path("wrong.jsonl").write_bytes(lines(lawful()).replace(b'"latency_cycles":9', b'"latency_cycles":8'))
    write_trace("hostile.jsonl", hostile())


def hostile() -> list[Record]:
    """Every text of the file is meant to do harm."""
    units = [{**unit, "unit": HOSTILE if unit["unit"] == "te0" else unit["unit"]} for unit in UNITS]
    job = {"job_id": 0, "cmd_id": 0, "unit": HOSTILE}
    head = meta(program=HOSTILE, units=units, commands=1)
    return [
        head,
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type=HOSTILE, unit=HOSTILE, phase=HOSTILE, layer_id=2**62),
        record("JOB_ISSUE", 0, **job, job_type=HOSTILE),
        record("CMD_START", 0, cmd_id=0, unit="te0"),
        record("STALL_EVENT", 3, **job, reason=HOSTILE),
        record("RESUME_EVENT", 5, **job, reason=HOSTILE, duration_cycles=2),
        record("ENGINE_SAMPLE", 15, unit=HOSTILE, window_cycles=16, busy_cycles=9, backpressure_cycles=0,
               bank_conflict_cycles=0),
        record("CMD_END", 20, cmd_id=0, unit=HOSTILE, status=HOSTILE),
        record("TOKEN_COMPLETE", 20, token=1, cmd_id=0, status=HOSTILE),
        record("WARN", 20, component=HOSTILE, code=HOSTILE, msg=HOSTILE),
        record("TRACE_END", 20, status="done", cycles=20, events=9, counters={HOSTILE: HOSTILE}),
    ]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    arguments = ("trace", *COMMANDS[name])
    check_pinned(kbsim, PINNED / name, arguments, width, folded=arguments[1] == "summary")


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)


def test_hostile_text_does_no_harm_in_other_forms(kbsim: Kbsim) -> None:
    for form in ("csv", "json"):
        said = kbsim("trace", "summary", "hostile.jsonl", "--format", form)
        assert said.code == 0 and all(c.isprintable() or c == "\n" for c in said.out)
    write_trace("formula.jsonl", [meta(program="=cmd|' /C calc'!A0"), *lawful()[1:]])
    assert ",'=cmd|' /C calc'!A0\n" in kbsim("trace", "summary", "formula.jsonl", "-f", "csv").out


def test_the_same_figures_in_every_form(kbsim: Kbsim) -> None:
    found = metrics(open_trace("tiles.jsonl"))
    assert json.loads(kbsim("trace", "summary", "tiles.jsonl", "--json").out) == json.loads(json.dumps(to_dict(found)))
    assert kbsim("trace", "summary", "tiles.jsonl", "--format", "csv").out == csv_text(found)
    for name in ("a.json", "a.csv"):
        said = kbsim("trace", "summary", "tiles.jsonl", "--out", name)
        assert said == (0, "", "")
    assert json.loads(Path("a.json").read_text(encoding="utf-8"))["engines"][0]["unit"] == "dma0"
    assert len(list(csv.reader(io.StringIO(Path("a.csv").read_text(encoding="utf-8"))))) == 1 + len(list(rows(found)))


def test_parquet_goes_to_a_file(kbsim: Kbsim) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    assert kbsim("trace", "summary", "tiles.jsonl", "-o", "a.parquet").code == 0
    assert polars.read_parquet("a.parquet").rows() == [tuple(row) for row in rows(metrics(open_trace("tiles.jsonl")))]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-f", "parquet"), "Parquet is no text; give --out FILE"),
        (("-o", "a.txt"), "a table goes to stdout; give --out a name that ends in .json, .csv or .parquet"),
        (("--json", "-f", "csv"), "--json and --format csv exclude each other"),
    ],
)
def test_forms_that_make_no_sense_are_refused(kbsim: Kbsim, arguments: tuple[str, ...], message: str) -> None:
    said = kbsim("trace", "summary", "hand.jsonl", *arguments)
    assert said.code == 2 and said.err == f"error: kbsim trace summary: {message}\n"


def test_a_file_that_breaks_off_is_summed_up_and_said(kbsim: Kbsim) -> None:
    said = kbsim("trace", "summary", "broken.jsonl", "--json")
    assert said.code == 2 and json.loads(said.out)["run"]["status"] == "cut off"
    assert said.err.startswith("error: broken.jsonl: line ") and said.err.endswith("the line is cut off\n")


def test_validate_as_json(kbsim: Kbsim) -> None:
    said = kbsim("trace", "validate", "hand.jsonl", "wrong.jsonl", "--json")
    whole = json.loads(said.out)
    assert (said.code, said.err, whole["status"]) == (1, "", "invalid")
    assert whole["files"][0] == {
        "file": "hand.jsonl", "status": "valid", "events": 73, "skipped": 0, "violations": 0, "by_law": {}, "first": [],
        "broken": None,
    }  # fmt: skip
    assert whole["files"][1]["by_law"] == {"latency": 2, "cycles": 1} and whole["files"][1]["first"][0]["line"] == 37
    said = kbsim("trace", "validate", "wrong.jsonl", "broken.jsonl", "no.jsonl", "--json")
    whole = json.loads(said.out)
    assert (said.code, whole["status"]) == (2, "broken")
    assert [one["status"] for one in whole["files"]] == ["invalid", "broken", "refused"]
    assert whole["files"][1]["broken"]["reason"] == "the line is cut off"
    assert whole["files"][2]["message"] == "no.jsonl: the file does not exist"


def test_a_reference_trace_is_valid(kbsim: Kbsim) -> None:
    said = kbsim("trace", "validate", "tiles.jsonl", "low.jsonl")
    assert said.code == 0 and said.out.count(": valid, ") == 2
