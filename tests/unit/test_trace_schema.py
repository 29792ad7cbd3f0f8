"""The schema of traces: what was released stays, its JSON Schema fits every line, the documentation leaves nothing out.

`tests/golden/trace_schema_1_0.json` is version 1.0 as it was released. It is never made again: a version that adds something
gets a file of its own, by `python -m tests.unit.test_trace_schema`.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from kernbench.trace import schema
from kernbench.trace.json_schema import trace_json_schema
from kernbench.trace.schema import EVENTS, Event, Field

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FROZEN = sorted(GOLDEN.glob("trace_schema_*.json"))
LINES = jsonschema.Draft202012Validator(trace_json_schema())


def frozen(events: tuple[Event, ...] = EVENTS) -> dict[str, Any]:
    """What a version promises, as plain data: the words of its descriptions may get better."""
    tables = {"WARN_CODES": schema.WARN_CODES, "ERROR_CODES": schema.ERROR_CODES}
    return {
        "version": schema.VERSION,
        "events": {event.name: {**_plain(event), "fields": [_plain(field) for field in event.fields]} for event in events},
        "common": [_plain(field) for field in schema.COMMON_FIELDS],
        "levels": list(schema.LEVELS),
        "phases": list(schema.PHASES),
        "stall_reasons": list(schema.STALL_REASONS),
        **{name.lower(): list(codes) for name, codes in tables.items()},
    }


def _plain(thing: Event | Field) -> dict[str, Any]:
    plain = msgspec.json.decode(msgspec.json.encode(thing))
    return {name: value for name, value in plain.items() if name not in ("doc", "fields")}


#: What most fields are, and records of versions do not say of them.
USUAL = {"unit": "", "required": True, "since": "1.0", "choices": []}


def written(promised: dict[str, Any]) -> str:
    """A version as its record has it: JSON with a line a field."""
    heads = []
    for head in promised["events"].values():
        own = {key: value for key, value in head.items() if key != "fields"}
        heads.append(f"{json.dumps(own)[:-1]}, \"fields\": [{_lines(head['fields'])}]}}")
    rest = {key: json.dumps(value) for key, value in promised.items() if key not in ("events", "common")}
    tables = [f"{json.dumps(key)}: {value}" for key, value in rest.items()]
    events, common = ",\n".join(heads), _lines(promised["common"])
    return "{" + ",\n".join([*tables, f'"common": [{common}]', f'"events": [\n{events}\n]']) + "}\n"


def _lines(fields: list[dict[str, Any]]) -> str:
    said = [{name: value for name, value in field.items() if USUAL.get(name) != value} for field in fields]
    return ",".join(f"\n  {json.dumps(field)}" for field in said)


def recorded(file: Path) -> dict[str, Any]:
    """The version that a record is of, with what it does not say of fields."""
    found = json.loads(file.read_text(encoding="utf-8"))
    found["common"] = [USUAL | field for field in found["common"]]
    events = [event | {"fields": [USUAL | field for field in event["fields"]]} for event in found["events"]]
    return found | {"events": {event["name"]: event for event in events}}


def broken_promises(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What `old` promised and `new` does not keep."""
    found = []
    for name, was in old["events"].items():
        now = new["events"].get(name)
        if now is None:
            found.append(f"{name} is gone")
            continue
        found += [f"{name}.{key} was {was[key]}" for key in ("number", "level", "phase", "component") if now[key] != was[key]]
        found += _broken_fields(name, was["fields"], now["fields"])
    found += _broken_fields("common", old["common"], new["common"])
    for table in ("levels", "phases", "stall_reasons", "warn_codes", "error_codes"):
        if new[table][: len(old[table])] != old[table]:
            found.append(f"{table} were {old[table]}")
    numbers = [event["number"] for event in new["events"].values()]
    if len(set(numbers)) != len(numbers):
        found.append("two events have one number")
    return found


def _broken_fields(name: str, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[str]:
    """Old fields come first, in their order and unchanged but for more choices; new ones are optional."""
    found = []
    for was, now in zip(old, new, strict=False):
        more = {**was, "choices": now["choices"]} if now["choices"][: len(was["choices"])] == was["choices"] else was
        if now != more or (now["choices"] and not was["choices"]):
            found.append(f"{name}.{was['name']} was {was}")
    if len(new) < len(old):
        found.append(f"{name} had {len(old)} fields")
    for field in new[len(old) :]:
        if field["required"] or field["since"] == "1.0":
            found.append(f"{name}.{field['name']} is new, but required or without its version")
    return found


@pytest.mark.parametrize("file", FROZEN, ids=lambda file: file.stem)
def test_what_was_released_stays(file: Path) -> None:
    assert not broken_promises(recorded(file), frozen())


def test_this_version_is_frozen() -> None:
    """A released version has its file, and a change of the table without a new version is seen."""
    file = GOLDEN / f"trace_schema_{schema.VERSION.replace('.', '_')}.json"
    assert recorded(file) == frozen() and file.read_text(encoding="utf-8") == written(frozen())
    assert schema.CHANGES[0][0] == schema.VERSION
    assert [version for version, _ in schema.CHANGES] == sorted({version for version, _ in schema.CHANGES}, reverse=True)


def changed(**how: Any) -> dict[str, Any]:
    """The table with one event changed."""
    return frozen(tuple(replace(event, **how) if event.name == "CMD_END" else event for event in EVENTS))


def test_broken_promises_are_seen() -> None:
    fields = schema.BY_NAME["CMD_END"].fields
    late = Field("late", "int", "a new one", required=False, since="1.1")
    assert not broken_promises(frozen(), changed(fields=(*fields, late)))
    more = replace(fields[2], choices=(*fields[2].choices, "SKIPPED"))
    assert not broken_promises(frozen(), changed(fields=(*fields[:2], more)))
    assert not broken_promises(frozen(), changed(doc="said better"))
    wrong: list[dict[str, Any]] = [
        {"number": 13},
        {"name": "COMMAND_END"},
        {"level": "full"},
        {"phase": 7},
        {"fields": fields[:2]},
        {"fields": (fields[1], fields[0], fields[2])},
        {"fields": (late, *fields)},
        {"fields": (*fields, replace(late, required=True))},
        {"fields": (*fields, replace(late, since="1.0"))},
        {"fields": (*fields[:2], replace(fields[2], choices=fields[2].choices[1:]))},
        {"fields": (fields[0], replace(fields[1], kind="int"), fields[2])},
        {"fields": (fields[0], replace(fields[1], unit="B"), fields[2])},
    ]
    for how in wrong:
        assert broken_promises(frozen(), changed(**how)), how
    twice = (*EVENTS, replace(EVENTS[-1], name="ANOTHER"))
    assert broken_promises(frozen(), frozen(twice)) == ["two events have one number"]
    fewer = frozen()
    fewer["warn_codes"].pop(0)
    assert len(broken_promises(frozen(), fewer)) == 1


def test_numbers_rise_and_levels_and_phases_are_known() -> None:
    numbers = [event.number for event in EVENTS]
    assert numbers == sorted(set(numbers))
    for event in EVENTS:
        assert event.level in schema.LEVELS and 0 <= event.phase < len(schema.PHASES)
        names = [field.name for field in event.fields]
        assert len(set(names)) == len(names) and event.doc.endswith(".")


# The JSON Schema ----------------------------------------------------------------------------------------------------


def test_the_schema_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(trace_json_schema())


@pytest.mark.parametrize("file", sorted((GOLDEN / "traces").glob("*.jsonl")), ids=lambda file: file.name)
def test_every_line_of_a_trace_fits(file: Path) -> None:
    for line in file.read_text(encoding="utf-8").splitlines():
        LINES.validate(json.loads(line))


def good_line(event: Event, all_fields: bool) -> dict[str, Any]:
    """A line of this event with its required fields, or with all that there are."""
    values = {"int": 1, "text": "x", "number": 0.5, "flag": True, "label": "x", "ints": [1], "texts": ["x"]}
    values |= {"object": {}, "objects": [{}]}
    line: dict[str, Any] = {"event_type": event.name, "t_cycle": 0}
    for field in (*event.fields, *(schema.COMMON_FIELDS if all_fields else ())):
        if (field.required or all_fields) and field.name not in line:
            line[field.name] = field.choices[0] if field.choices else values[field.kind]
    return line


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_lines_fit_and_wrong_ones_do_not(event: Event) -> None:
    least, most = good_line(event, False), good_line(event, True)
    LINES.validate(least)
    LINES.validate(most)
    wrong = [{**least, "surprise": 1}, {**least, "t_cycle": -1}, {**least, "t_cycle": 1.5}]
    wrong += [{name: value for name, value in least.items() if name != gone} for gone in least]
    for field in event.fields:
        if field.kind not in ("label", "number"):
            wrong.append({**most, field.name: [0.5]})
        if field.choices:
            wrong.append({**most, field.name: "none of these"})
    for line in wrong:
        with pytest.raises(jsonschema.ValidationError):
            LINES.validate(line)


def test_unknown_events_do_not_fit() -> None:
    with pytest.raises(jsonschema.ValidationError):
        LINES.validate({"event_type": "CMD_STOP", "t_cycle": 0})


def test_the_schema_is_not_changed_by_its_use() -> None:
    before = copy.deepcopy(trace_json_schema())
    trace_json_schema()["$defs"].clear()
    assert trace_json_schema() == before


if __name__ == "__main__":
    target = GOLDEN / f"trace_schema_{schema.VERSION.replace('.', '_')}.json"
    if target.exists():
        raise SystemExit(f"{target.name} is there already, and what it says has been released")
    target.write_text(written(frozen()), encoding="utf-8")
