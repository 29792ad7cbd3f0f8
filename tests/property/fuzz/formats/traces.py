"""Traces: JSON Lines, plain or in gzip or zstd containers; and the counters that are put beside them."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from kernbench.trace.writer import zstd_module
from tests.property.fuzz.bases import npu_systems, pe_systems
from tests.property.fuzz.case import Case
from tests.property.fuzz.formats.machine_files import ON
from tests.property.fuzz.harness import Limits, run_case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed, text_of
from tests.property.fuzz.values import strange
from tests.trace_samples import lawful, lines, one_of_each

ENDS = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def packed(text: bytes, end: str) -> bytes:
    """The text of a trace as a file of that name's end."""
    if end.endswith(".gz"):
        return gzip.compress(text, 1, mtime=0)
    return bytes(zstd_module().compress(text)) if end.endswith(".zst") else text


def recorded(number: int, count: int) -> list[bytes]:
    """Traces of every level, by hand and of runs."""
    found = [lines(lawful()), lines(one_of_each())]
    systems = [*npu_systems(count, number)[: max(4, count)], *pe_systems(max(2, count // 4), number)[:8]]
    for i, (machine, program) in enumerate(systems):
        level = ("full", "summary", "access", "full")[i % 4]
        arguments = ("run", "p.json", *ON, "--trace", "t.jsonl", "--trace-level", level, "--trace-window", "64")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run"
            run_case(Case(arguments, {"m.yaml": as_yaml(machine), "p.json": as_json(program)}), place, Limits())
            text = (place / "t.jsonl").read_bytes()
            if len(text) < 400_000:
                found.append(text)
    return found


class TraceFormat:
    """Everything that `kbsim trace` does with a trace."""

    name = "trace"

    def __init__(self, number: int, count: int) -> None:
        self.bases = recorded(number, count)

    def sound(self) -> list[Case]:
        """Every trace, summed up."""
        return [
            Case(("trace", "summary", f"t{end}"), {f"t{end}": packed(text, end)})
            for i, text in enumerate(self.bases)
            if i != 1  # one of each record is no lawful run
            for end in (ENDS[i % 3],)
        ]

    def mutated(self, rng: Random) -> Case:
        """A trace with other records, in another order, or in a damaged container."""
        base = rng.choice(self.bases)
        end = rng.choice((".jsonl", ".jsonl", ".jsonl", ".jsonl.gz", ".jsonl.zst"))
        if rng.random() < 0.85:
            data = packed(changed_lines(rng, base), end)
            if end != ".jsonl" and rng.random() < 0.2:
                data += packed(base, rng.choice(ENDS))
        else:
            data = bytes_changed(rng, packed(base, end))
        return self._command(rng, f"t{end}", data, base)

    def _command(self, rng: Random, name: str, data: bytes, other: bytes) -> Case:
        files = {name: data, "o.jsonl": other, "c.csv": b"counter,value,t_cycle\ncycles,60,\nte0.busy,5,20\n"}
        way = rng.randrange(12)
        if way < 2:
            return Case(("trace", "validate", name), files)
        if way < 4:
            return Case(
                ("trace", "summary", name, *rng.choice(((), ("--json",), ("--out", "s.csv"), ("--out", "s.json")))), files
            )
        if way < 6:
            return Case(("trace", "why", name, *rng.choice(((), ("--json",), ("--op", "1")))), files)
        if way < 8:
            to, out = rng.choice((("chrome", "o.json"), ("perfetto", "o.pftrace"), ("csv", "o.csv"), ("parquet", "o.parquet")))
            if rng.random() < 0.2:
                to, out = "jsonl", "o.jsonl.gz"
            return Case(("trace", "export", name, "--to", to, "--out", out), files)
        if way < 10:
            pair = rng.choice(((name, "o.jsonl"), ("o.jsonl", name), (name, name)))
            return Case(
                ("trace", "diff", *pair, *rng.choice(((), ("--json",), ("--markdown", "d.md", "--junit", "d.xml")))), files
            )
        if way == 10:
            view = rng.choice(((), ("--view", "gantt"), ("--view", "heatmap"), ("--view", "phases"), ("--view", "roofline")))
            return Case(("trace", "report", name, *view, "--out", "r.svg" if view else "r.html"), files)
        return Case(("trace", "align", name, "c.csv", "--out", "merged.jsonl"), files)

    def readers(self) -> list[tuple[Case, str]]:
        """Each command, by each name's end."""
        text = self.bases[0]
        files = {f"t{end}": packed(text, end) for end in ENDS}
        found = []
        for i, what in enumerate(("validate", "summary", "why")):
            name = f"t{ENDS[i]}"
            found.append((Case(("trace", what, name), files), name))
        found.append((Case(("trace", "export", "t.jsonl", "--to", "chrome", "--out", "o.json"), files), "t.jsonl"))
        found.append((Case(("trace", "diff", "t.jsonl", "t.jsonl.gz"), files), "t.jsonl.gz"))
        found.append((Case(("trace", "report", "t.jsonl", "--out", "r.html"), files), "t.jsonl"))
        return found


def changed_lines(rng: Random, text: bytes) -> bytes:
    """Some records changed, lost, doubled, moved, or from elsewhere."""
    rows = text.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        if not rows:
            break
        # What all else hangs on stands in the first line and the last.
        at = rng.choice((0, len(rows) - 1)) if rng.random() < 0.3 else rng.randrange(len(rows))
        way = rng.randrange(10)
        if way < 6:
            rows[at] = _changed_record(rng, rows[at])
        elif way == 6:
            del rows[at]
        elif way == 7:
            rows.insert(rng.randint(0, len(rows)), rows[at])
        elif way == 8:
            other = rng.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        else:
            rows = rows[:at]
    return b"".join(rows)


def _changed_record(rng: Random, row: bytes) -> bytes:
    try:
        record = json.loads(row)
    except ValueError:
        return bytes_changed(rng, row)
    if rng.random() < 0.1 or not isinstance(record, dict):
        return bytes_changed(rng, row)
    if rng.random() < 0.6:  # fields of the record itself: numbers that others refer to
        name = rng.choice(list(record))
        record[name] = strange(rng, record[name])
    else:
        record = changed(rng, record)
    return as_json(record) + b"\n"


class CountersFormat:
    """Counters of hardware, and what they are called: CSV, JSON and YAML."""

    name = "counters"
    BOARD: dict[str, Any] = {
        "counters": [
            {"counter": "cycles", "value": 60},
            {"counter": "busy", "unit": "te0", "value": "5.5", "t_cycle": 20},
            {"counter": "TE_ACTIVE", "value": 1e3, "t_ns": 12},
            {"counter": "BURSTS", "value": 4},
        ]
    }
    MAP: dict[str, Any] = {
        "TE_ACTIVE": "te0.busy",
        "BURSTS": {"simulated": "dram.ch*.bytes", "scale": 64},
        "SUMS": {"simulated": ["te0.busy", "ve0.busy"], "scale": 0.5},
    }
    CSV = b"counter,value,unit,t_cycle,t_ns\ncycles,60,,,\nbusy,5,te0,20,\nTE_ACTIVE,1.5,,,30\nspm.denials[1],3,,,\n"

    def __init__(self, number: int, count: int) -> None:
        self.trace = lines(lawful())

    def _case(self, board: str, data: bytes, names: bytes, *more: str) -> Case:
        files = {"t.jsonl": self.trace, board: data, "names.yaml": names}
        return Case(("trace", "align", "t.jsonl", board, "--map", "names.yaml", "--out", "o.jsonl", *more), files)

    def sound(self) -> list[Case]:
        """As CSV, JSON and YAML."""
        names = as_yaml(self.MAP)
        return [
            self._case("c.csv", self.CSV, names),
            self._case("c.json", as_json(self.BOARD), names),
            self._case("c.yaml", as_yaml(self.BOARD), names),
        ]

    def mutated(self, rng: Random) -> Case:
        """Other counters, or other names."""
        more = rng.choice(((), ("--json",)))
        if rng.random() < 0.4:
            return self._case("c.csv", self.CSV, text_of(rng, changed(rng, self.MAP), ".yaml"), *more)
        if rng.random() < 0.4:
            cells = [line.split(b",") for line in self.CSV.splitlines()]
            row = rng.choice(cells)
            at = rng.randrange(len(row))
            row[at] = str(strange(rng, row[at].decode())).encode("utf-8", "surrogatepass")
            text = b"\n".join(b",".join(line) for line in cells)
            return self._case("c.csv", bytes_changed(rng, text) if rng.random() < 0.3 else text, as_yaml(self.MAP), *more)
        end = rng.choice((".json", ".yaml"))
        return self._case(f"c{end}", text_of(rng, changed(rng, self.BOARD), end), as_yaml(self.MAP), *more)

    def readers(self) -> list[tuple[Case, str]]:
        """Counters as CSV and JSON, and names."""
        csv, plain, _ = self.sound()
        return [(csv, "c.csv"), (plain, "c.json"), (csv, "names.yaml")]
