"""`kbsim trace diff`, `align` and `export`: what people see at 80 and 120 columns, and what CI gets."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernbench.cmdq.program import Program
from kernbench.trace.exporters.selection import KINDS
from kernbench.trace.reader import open_trace
from kernbench.trace.schema import EVENTS
from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned
from tests.cli.samples import MACHINE, clash, stuck, tiles
from tests.oracles.ref_trace import reference_trace
from tests.trace_samples import lawful, lines, meta, record, write_trace

PINNED = GOLDEN / "trace_compare"
COUNTERS = """\
counter,value,unit,t_cycle,t_ns
te0.busy,2100,,,
busy,500,te0,1000,
DRAM_READS,480,,,
dma0.jobs,4,,700,
cycles,3500,,,1e6
temperature,61.5,,,20.5
"""
MAPPING = 'DRAM_READS: {simulated: "dram.ch*.bytes", scale: 64}\n'
COMMANDS = {
    "diff_slower": ("diff", "tiles.jsonl", "narrow.jsonl", "--fail-above", "2%"),
    "diff_faster": ("diff", "narrow.jsonl", "tiles.jsonl", "--fail-above", "2%"),
    "diff_same": ("diff", "tiles.jsonl", "tiles.jsonl"),
    "diff_other_program": ("diff", "tiles.jsonl", "longer.jsonl"),
    "diff_clocks": ("diff", "hand.jsonl", "fast.jsonl"),
    "diff_broken": ("diff", "tiles.jsonl", "broken.jsonl"),
    "diff_unfinished": ("diff", "stuck.jsonl", "clash.jsonl"),
    "diff_hostile": ("diff", "hand.jsonl", "hostile.jsonl"),
    "align": ("align", "tiles.jsonl", "board.csv", "--map", "board.yaml"),
    "align_plain": ("align", "hand.jsonl", "few.json"),
    "export": ("export", "hand.jsonl", "--to", "chrome", "-o", "hand.json"),
    "export_broken": ("export", "broken.jsonl", "--to", "csv", "-o", "broken.csv.gz"),
}
HOSTILE = "\x1b[2J \u202e`|<b>@all [x](y)" + "Z" * 300


def longer() -> Any:
    """The same program with a NOP before everything else: every id means something else."""
    program = tiles().to_dict()
    for entry in program["cmdq"]:
        entry["id"] += 1
        for field in ("deps_before", "wait_for"):
            if field in entry:
                entry[field] = [one + 1 for one in entry[field]]
    return {**program, "cmdq": [{"opcode": "NOP", "id": 0}, *program["cmdq"]]}


@pytest.fixture(scope="module")
def traces() -> dict[str, bytes]:
    """Traces of the reference: made once, they take a while."""
    machine = yaml.safe_load(MACHINE)
    narrow = {**machine, "dram": {**machine["dram"], "channels": 1}, "noc": {**machine["noc"], "dram_at": [[0, 1]]}}
    warn = {**machine, "spm": {**machine["spm"], "check_overlap": "error"}}
    runs = {
        "tiles": (machine, tiles().to_dict()),
        "narrow": (narrow, tiles().to_dict()),
        "longer": (machine, longer()),
        "stuck": (machine, stuck().to_dict()),
        "clash": (warn, clash().to_dict()),
    }
    made = {}
    for name, run in runs.items():
        made[name] = b"".join(line + b"\n" for line in reference_trace(*run, level="summary", window=128))
    return {**made, "broken": made["tiles"][:15_000]}


@pytest.fixture(autouse=True)
def _files(_place: None, traces: dict[str, bytes]) -> None:
    for name, data in traces.items():
        Path(f"{name}.jsonl").write_bytes(data)
    write_trace("hand.jsonl", lawful())
    Path("fast.jsonl").write_bytes(lines(lawful()).replace(b'"freq_ghz":"1.5"', b'"freq_ghz":"2"'))
    hostile = [
        meta(program=HOSTILE, sim_config={HOSTILE: HOSTILE}, units=[{"unit": HOSTILE, "component": "TE"}]),
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type=HOSTILE, unit=HOSTILE, phase=HOSTILE),
        record("CMD_START", 0, cmd_id=0, unit=HOSTILE),
        record("CMD_END", 9, cmd_id=0, unit=HOSTILE, status="OK"),
        record("TRACE_END", 9, status=HOSTILE, cycles=9, events=3, counters={HOSTILE: {"busy": 1, "idle": 2}}),
    ]
    write_trace("hostile.jsonl", hostile)
    Path("board.csv").write_text(COUNTERS)
    Path("board.yaml").write_text(MAPPING)
    few = [{"counter": "te0.busy", "value": 8}, {"counter": "ve0.ops", "value": 130.5}]
    Path("few.json").write_text(json.dumps({"counters": few}))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    arguments = ("trace", *COMMANDS[name])
    check_pinned(kbsim, PINNED / name, arguments, width)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)


# diff -------------------------------------------------------------------------------------------------------------


def lasting(cycles: int, freq: str = "1") -> Path:
    """A trace of a run of so many cycles."""
    end = record("TRACE_END", cycles, status="done", cycles=cycles, events=0, counters={})
    return write_trace(f"run{cycles}_{freq.replace('/', '_')}.jsonl", [meta(freq_ghz=freq, program="p"), end])


@pytest.mark.parametrize(("a", "b", "limit", "code"), [
    (100, 102, "2%", 0), (100, 103, "2%", 1), (10**15, 102 * 10**13, "2%", 0), (10**15, 102 * 10**13 + 1, "2%", 1),
    (3, 4, "33.3333333333333333333%", 1), (3, 4, "33.4%", 0), (100, 100, "0%", 0), (100, 101, "0%", 1), (100, 50, "0%", 0),
    (0, 0, "5%", 0), (0, 1, "5%", 1), (100, 1000, "1e3%", 0),
])  # fmt: skip
def test_fail_above_is_exact(a: int, b: int, limit: str, code: int, kbsim: Kbsim) -> None:
    said = kbsim("trace", "diff", str(lasting(a)), str(lasting(b)), "--fail-above", limit, "--junit", "r.xml", "--json")
    assert said.code == code and json.loads(said.out)["failed"] == bool(code)
    suite = ElementTree.parse("r.xml").getroot()
    assert suite.attrib["failures"] == str(code) and (suite.find(".//failure") is not None) == bool(code)


@pytest.mark.parametrize(("freq", "code"), [("1", 1), ("1.5", 0), ("1.49999", 1)])
def test_with_other_clocks_time_decides(freq: str, code: int, kbsim: Kbsim) -> None:
    """150 cycles at 1.5 GHz take as long as 100 at 1 GHz."""
    assert kbsim("trace", "diff", str(lasting(100)), str(lasting(150, freq)), "--fail-above", "0%").code == code


@pytest.mark.parametrize(("limit", "rule"), [
    ("2", "it must be a percentage, as 2%"),
    ("-1%", "it must be at least 0%"),
    ("x%", "it must be a decimal number"),
    ("%", "it must be a decimal number"),
])  # fmt: skip
def test_a_limit_must_be_a_percentage(limit: str, rule: str, kbsim: Kbsim) -> None:
    said = kbsim("trace", "diff", "hand.jsonl", "hand.jsonl", "--fail-above", limit)
    assert (said.code, said.out) == (2, "") and said.err == f'error: kbsim trace diff: --fail-above = "{limit}", but {rule}\n'


def test_json_has_it_all(kbsim: Kbsim) -> None:
    said = json.loads(kbsim("trace", "diff", "tiles.jsonl", "narrow.jsonl", "--json").out)
    ends = [open_trace(f"{name}.jsonl") for name in ("tiles", "narrow")]
    counters = [[*trace] and trace.end.counters for trace in ends]  # type: ignore[union-attr]
    assert (said["verdict"], said["a"]["cycles"], said["b"]["cycles"]) == ("slower", 3410, 4363)
    assert said["growth"] == 953 / 3410 and said["fail_above"] is None and not said["failed"]
    assert said["aligned"] == {"by": "id", "matched": 22, "only_a": [], "only_b": [], "moved": 0, "open": 0}
    assert said["settings"] == [
        {"setting": "dram.channels", "a": 2, "b": 1},
        {"setting": "noc.dram_at", "a": [[0, 1], [1, 1]], "b": [[0, 1]]},
    ]
    for row in (*said["engines"], *said["resources"]):
        for name, change in row.items():
            if name != "name":
                found = [counter.get(row["name"], {}) for counter in counters]
                want = [one.get(name, one.get("stalled", {}).get(name)) for one in found]
                assert [change["a"], change["b"]] == want and change["change"] == (want[1] or 0) - (want[0] or 0)
    for one in said["commands"]:
        assert one["cycles"]["change"] == sum(part["change"] for part in one["parts"].values()) != 0
        assert one["parts"][one["because"]]["change"] * one["cycles"]["change"] > 0
    totals = [sum(part[side] for part in said["parts"].values()) for side in "ab"]
    assert totals == [sum(kind["cycles"][side] for kind in said["kinds"]) for side in "ab"]


def test_programs_that_differ_are_aligned_by_what_they_do(kbsim: Kbsim) -> None:
    aligned = json.loads(kbsim("trace", "diff", "tiles.jsonl", "longer.jsonl", "--json").out)["aligned"]
    assert (aligned["by"], aligned["matched"], aligned["only_a"]) == ("key", 22, [])
    assert [(one["cmd_id"], one["cmd_type"]) for one in aligned["only_b"]] == [(0, "NOP")]


def test_markdown_is_a_table_of_everything(kbsim: Kbsim) -> None:
    said = kbsim("trace", "diff", "tiles.jsonl", "narrow.jsonl", "--fail-above", "30%", "--markdown", "d.md")
    text = Path("d.md").read_text(encoding="utf-8")
    assert said.code == 0
    head = "### tiles: slower by 27.95%: 3,410 to 4,363 cycles (+953)\n\n22 of 22 and 22 commands matched, by id. "
    assert text.startswith(head)
    assert "The change of +27.95% is not above the limit of 30%." in text
    assert "| dma0 | 995 | 1,947 | +952 | 0 | +188 | +187 | +1 |" in text
    for table in text.split("\n\n"):
        rows = [line for line in table.split("\n") if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1
    assert len([line for line in text.split("\n") if line.startswith("**")]) == 6


def test_hostile_names_are_code_in_markdown_and_text_in_xml(kbsim: Kbsim) -> None:
    said = kbsim("trace", "diff", "hostile.jsonl", "hand.jsonl", "--markdown", "d.md", "--junit", "d.xml")
    assert said.code == 0
    text = Path("d.md").read_text(encoding="utf-8")
    assert "\x1b" not in text and "\u202e" not in text
    for line in text.split("\n"):
        outside = "".join(line.replace("\\|", "").split("`")[::2])
        assert not any(part in outside for part in ("<b>", "@all", "[x]", "Z")), line
    assert "Z" * 300 in (ElementTree.parse("d.xml").getroot().findtext(".//system-out") or "")


def test_junit_says_what_grew(kbsim: Kbsim) -> None:
    said = kbsim("trace", "diff", "tiles.jsonl", "narrow.jsonl", "--fail-above", "2%", "--junit", "d.xml")
    assert said.code == 1
    root = ElementTree.parse("d.xml").getroot()
    suite, case = root.find("testsuite"), root.find(".//testcase")
    assert suite is not None and case is not None
    assert (suite.attrib["tests"], suite.attrib["failures"], case.attrib["name"]) == ("1", "1", "makespan")
    failure = case.find("failure")
    assert failure is not None and failure.attrib["message"] == "The change of +27.95% is above the limit of 2%"
    values = {one.attrib["name"]: one.attrib["value"] for one in root.iter("property")}
    assert values["cycles_a"] == "3410" and values["cycles_b"] == "4363"
    assert float(case.attrib["time"]) == pytest.approx(4363 / 1.5e9, abs=1e-9)


def test_a_filtered_trace_says_so(kbsim: Kbsim) -> None:
    write_trace("some.jsonl", [meta(filter={"cycles": [10, 20]}), *lawful()[1:]])
    assert "; B was written with a filter\n" in kbsim("trace", "diff", "hand.jsonl", "some.jsonl").out
    Path("one.csv").write_text("counter,value,t_cycle\nte0.busy,3,16\n")
    rows = [
        json.loads(kbsim("trace", "align", name, "one.csv", "--json").out)["counters"][0]
        for name in ("hand.jsonl", "some.jsonl")
    ]
    assert [(row["simulated"], row["as_of"]) for row in rows] == [(7, 16), (None, None)]


def test_nothing_is_compared_before_it_is_known_that_it_can_be_written(kbsim: Kbsim) -> None:
    said = kbsim("trace", "diff", "no.jsonl", "hand.jsonl", "--markdown", "no/such/place.md")
    assert said.code == 2 and "there is no directory" in said.err


# align ------------------------------------------------------------------------------------------------------------


def test_counters_are_laid_beside_the_simulated_ones(kbsim: Kbsim) -> None:
    said = json.loads(kbsim("trace", "align", "tiles.jsonl", "board.csv", "--map", "board.yaml", "--json").out)
    rows = {row["counter"]: row for row in said["counters"]}
    assert (rows["te0.busy"]["simulated"], rows["te0.busy"]["ratio"]) == (2085, 2085 / 2100)
    assert rows["DRAM_READS"]["measured"] == 480 * 64 == rows["DRAM_READS"]["simulated"]
    assert rows["DRAM_READS"]["simulated_counters"] == ["dram.ch0.bytes", "dram.ch1.bytes"]
    samples = [one for one in open_trace("tiles.jsonl") if one.event.name == "ENGINE_SAMPLE" and one.unit == "te0"]
    assert rows["busy"]["as_of"] == 896
    assert rows["busy"]["simulated"] == sum(one.busy_cycles for one in samples if one.t_cycle < 896)
    assert rows["dma0.jobs"]["simulated"] is None and rows["dma0.jobs"]["simulated_counters"] == ["dma0.jobs"]
    assert rows["temperature"]["simulated_counters"] == [] and rows["temperature"]["cycle"] == 30
    assert said["late"] == 1 and rows["cycles"]["as_of"] == 3410 and rows["cycles"]["cycle"] == 1_500_000


def test_the_merged_trace_has_the_readings_in_their_places(kbsim: Kbsim) -> None:
    assert kbsim("trace", "align", "tiles.jsonl", "board.csv", "--map", "board.yaml", "-o", "merged.jsonl.gz").code == 0
    assert kbsim("trace", "validate", "merged.jsonl.gz").code == 0
    merged = open_trace("merged.jsonl.gz")
    found = [(one.t_cycle, one.counter, one.value, one.unit, one.source) for one in merged if one.event.name == "HW_COUNTER"]
    assert found == [
        (30, "temperature", 61.5, None, "board.csv"),
        (700, "dma0.jobs", 4, None, "board.csv"),
        (1000, "busy", 500, "te0", "board.csv"),
        (3410, "te0.busy", 2100, None, "board.csv"),
        (3410, "DRAM_READS", 480, None, "board.csv"),
        (3410, "cycles", 3500, None, "board.csv"),
    ]


def test_a_broken_trace_has_no_counters(kbsim: Kbsim) -> None:
    said = kbsim("trace", "align", "broken.jsonl", "few.json")
    assert said.code == 2 and said.err.startswith("error: broken.jsonl: the trace breaks off: line ")


# export -----------------------------------------------------------------------------------------------------------


def test_export_answers_in_json(kbsim: Kbsim) -> None:
    said = kbsim("trace", "export", "hand.jsonl", "--to", "jsonl", "-o", "full.jsonl", "--json")
    assert json.loads(said.out) == {"out": "full.jsonl", "format": "jsonl", "lines": 75, "broken": None}
    assert kbsim("trace", "validate", "full.jsonl").code == 0


def test_time_is_for_timelines(kbsim: Kbsim) -> None:
    said = kbsim("trace", "export", "hand.jsonl", "--to", "csv", "-o", "x.csv", "--time", "cycles")
    message = 'kbsim trace export: --time = "cycles", but --to csv has both cycles and nanoseconds'
    assert (said.code, said.out, said.err) == (2, "", f"error: {message}\n") and not Path("x.csv").exists()
    for time, last in (("ns", "0.019333333"), ("cycles", "0.029")):
        kbsim("trace", "export", "hand.jsonl", "--to", "chrome", "-o", "x.json", "--time", time)
        assert f'"ts":{last},"cat":"file","name":"TRACE_END"' in Path("x.json").read_text()


def test_export_refuses_a_place_that_is_none(kbsim: Kbsim) -> None:
    said = kbsim("trace", "export", "hand.jsonl", "--to", "chrome", "-o", "no/x.json")
    assert said.code == 2 and "there is no directory" in said.err


def test_an_export_without_accesses_has_everything_else(kbsim: Kbsim) -> None:
    kbsim("trace", "export", "hand.jsonl", "-o", "all.csv")
    said = kbsim("trace", "export", "hand.jsonl", "-o", "few.csv", "--without", "accesses,samples")
    assert said.code == 0
    every, few = (Path(name).read_text().splitlines()[1:] for name in ("all.csv", "few.csv"))
    left = {*KINDS["accesses"], *KINDS["samples"]}
    assert few == [line for line in every if line.split(",")[0] not in left] and 2 < len(few) < len(every)
    kbsim("trace", "export", "hand.jsonl", "-o", "same.csv", "--only", ",".join(sorted(set(KINDS) - {"accesses", "samples"})))
    assert Path("same.csv").read_bytes() == Path("few.csv").read_bytes()


def test_an_export_of_a_phase_has_its_commands_alone(kbsim: Kbsim) -> None:
    program = Program("phases")
    for place, phase in enumerate(("first", "second", "first")):
        tile = {"tensor_role": "weight", "qbits": 8, "num_elements": 256, "spm_bank": 0}
        program.dma_load(**tile, dram_addr=256 * place, spm_offset=256 * place, phase=phase, layer_id=place)
    program.save("phases.json")
    assert kbsim("run", "phases.json", "--trace", "run.jsonl", "--trace-level", "full", "--quiet").code == 0
    records = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    phases = {one["cmd_id"]: one.get("phase") for one in records if one["event_type"] == "CMD_ENQUEUE"}
    assert kbsim("trace", "export", "run.jsonl", "-o", "part.csv", "--phase", "first").code == 0
    head, *lines = list(csv.reader(Path("part.csv").read_text().splitlines()))
    place = head.index("cmd_id")
    assert {int(line[place]) for line in lines if line[place]} == {one for one, phase in phases.items() if phase == "first"}
    said = kbsim("trace", "export", "run.jsonl", "-o", "none.csv", "--layer", "999")
    assert said.code == 2
    assert "no command is of these layers and phases; it has layers 0, 1, 2; phases first, second" in said.err
    assert not Path("none.csv").exists()


@pytest.mark.parametrize("name", ["x.json", "x.csv", "x.pftrace"])
def test_the_size_of_an_export_is_told_before_it_is_written(kbsim: Kbsim, name: str) -> None:
    if name.endswith("pftrace"):
        pytest.importorskip("google.protobuf")
    for more in ([], ["--without", "accesses"]):
        said = kbsim("trace", "export", "hand.jsonl", "-o", name, "--dry-run", "--json", *more)
        told = json.loads(said.out)
        parts = sum(kind["bytes"] for kind in told["kinds"].values())
        assert not Path(name).exists() and told["bytes"] == parts + told["rest"]
        assert ("accesses" in told["kinds"]) == (not more)
        kbsim("trace", "export", "hand.jsonl", "-o", name, *more)
        real = Path(name).stat().st_size
        Path(name).unlink()
        assert told["bytes"] == pytest.approx(real, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "x.csv", "--only", "jobs,thing"], '--only = "jobs,thing", but it must be some of commands, jobs, flows'),
        (["-o", "x.csv", "--only", "jobs", "--without", "jobs"], '--without = "jobs", but it leaves nothing'),
        (["-o", "x.csv", "--layer", "first"], '--layer = "first", but it must be a list of layer numbers such as 0,1,2'),
        (["-o", "x.jsonl", "--without", "jobs"], "--without: --to jsonl writes a trace, and a trace must be complete"),
        (["-o", "x.parquet", "--dry-run"], "--dry-run: --to parquet is written as a whole"),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused(kbsim: Kbsim, options: list[str], message: str) -> None:
    said = kbsim("trace", "export", "hand.jsonl", *options)
    assert said.code == 2 and message in said.err and not Path(options[1]).exists()


def test_every_event_has_a_kind() -> None:
    named = [name for names in KINDS.values() for name in names]
    assert len(named) == len(set(named)) and {*named, "TRACE_META", "TRACE_END"} == {event.name for event in EVENTS}
