"""Compiled programs with elements of every table, and fields of entries, set to what may hurt, and sealed again.

Each file is run by `kbsim` in a child with limits of addresses and CPU time. It is refused, or runs to the result of the
program that was compiled: tables of other entries are never run.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import load_config
from kernbench.cli.main import exit_code
from kernbench.cmdq.compiled import MAGIC, SEAL, pack, save_compiled, unpack
from kernbench.cmdq.footprint import regions_of, service_cycles, transfer_of, work_of
from kernbench.cmdq.lower import lower_program
from kernbench.cmdq.parse import load_program
from kernbench.cmdq.plan import plan_program
from kernbench.cmdq.table_rules import COLUMNS, broken_rule
from kernbench.common.errors import InputError, InternalError
from tests.cli.samples import MACHINE, tiles
from tests.hostile import VALUES, in_child
from tests.strategies import systems

POSITIVE = {"num_elements", "rows", "row_elements", "stride_bytes", "t_len", "d_len", "m", "n", "k", "length", "batch"}
EXTENT = ("write", "channel", "dram_addr", "rows", "row_bytes", "stride", "spm_addr")  #: that one entry alone has as well
Change = tuple[str, bytes]  #: what was done, and the file


def sealed(rest: bytes) -> bytes:
    return MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def with_other_tables(data: bytes, tables: dict[str, Any]) -> bytes:
    found = unpack(data)
    return pack(found.name, found.entries, found.machine, tables)


def changed_elements(data: bytes, draw: random.Random, each: int) -> Iterator[Change]:
    """`each` changes of each column: one element, set to a value of VALUES, or of a neighbour in another column."""
    tables = unpack(data).tables
    assert tables is not None
    for column in COLUMNS:
        table = column.of_tables(tables)
        if not table.size:
            continue
        places = [tuple(place) for place in np.argwhere(np.ones(table.shape)).tolist()]
        for place in draw.sample(places, min(each, len(places))):
            other = copy.deepcopy(tables)
            near = draw.choice(COLUMNS).of_tables(tables)
            neighbours = (int(near.flat[0]), int(near.flat[-1])) if near.size else ()
            value = draw.choice((*VALUES, int(table[place]) + 1, int(table[place]) - 1, *neighbours))
            column.of_tables(other)[place] = max(min(value, 2**63 - 1), -(2**63))
            yield f"{column.name}{list(place)} = {value}", with_other_tables(data, other)


def changed_shapes(data: bytes) -> Iterator[Change]:
    """Each column as a table of one row, with one element more, one less, none, and one axis more."""
    tables = unpack(data).tables
    assert tables is not None
    for column in COLUMNS:
        table = column.of_tables(tables)
        others = (table.reshape(1, -1), np.append(table, 0), table[:-1], table[:0], table[..., None], np.zeros((), np.int64))
        for k, other in enumerate(others):
            changed = copy.deepcopy(tables)
            section, _, name = column.name.rpartition(".")
            (changed[section] if section else changed)[name] = np.ascontiguousarray(other)
            yield f"{column.name} as {k}", with_other_tables(data, changed)


def changed_entries(data: bytes, draw: random.Random, count: int) -> Iterator[Change]:
    """One number or text of one entry, or of its metadata, replaced in the MessagePack."""
    rest = data[len(MAGIC) + SEAL + 1 :]
    line, _, body = rest.partition(b"\n")
    head = json.loads(line)
    strange = (*VALUES, 2**64 - 1, None, True, 1.5, float("nan"), "", "x", "\0", b"y", [], {}, [0], {"debug": {1: 2}})
    for _ in range(count):
        number, at = draw.randrange(len(head["entries"])), 0
        sizes = [size for _, _, size in head["entries"]]
        at = sum(sizes[:number])
        rows = msgspec.msgpack.decode(body[at : at + sizes[number]])
        row = draw.choice(rows)
        field, value = draw.randrange(len(row)), draw.choice(strange)
        what = f"entry {row[0]}, field {field} = {value!r}"
        if isinstance(row[field], dict) and draw.random() < 0.7:
            row[field][draw.choice(("token_idx", "head_id", "phase", "debug", "more", "marker"))] = value
        elif isinstance(row[field], list) and draw.random() < 0.7:
            row[field].append(value)
        else:
            row[field] = value
        group = msgspec.msgpack.encode(rows)
        groups = [list(one) for one in head["entries"]]
        groups[number][2] = len(group)
        line = json.dumps({**head, "entries": groups}).encode() + b"\n"
        yield what, sealed(line + body[:at] + group + body[at + sizes[number] :])


def changed_heads(data: bytes, draw: random.Random, count: int) -> Iterator[Change]:
    rest = data[len(MAGIC) + SEAL + 1 :]
    line, _, body = rest.partition(b"\n")
    for _ in range(count):
        head = json.loads(line)
        place: Any = head
        key: Any = draw.choice(list(head))
        while isinstance(place[key], list) and place[key] and draw.random() < 0.9:
            place = place[key]
            key = draw.randrange(len(place))
        strange = (None, "", "dma.route", "<i8", "<f8", [], {}, [1, 2], [[0, 1, 2]], [["op", "<i1", [1]]])
        place[key] = draw.choice((*VALUES, *strange))
        yield f"head {key} = {place[key]!r}", sealed(json.dumps(head).encode() + b"\n" + body)


def search(tmp_path: Path, changes: Iterator[Change], result: str, *, same: bool = True) -> Counter[str]:
    """How the files ended; fails where one did otherwise than a file may. `same`: those that run have this result."""
    counts: Counter[str] = Counter()
    path, log = tmp_path / "changed.kbp", tmp_path / "log.txt"
    for what, data in changes:
        path.write_bytes(data)
        code = in_child(lambda: exit_code(["run", str(path), "--config", str(tmp_path / "npu.yaml"), "--json"]), log)
        said = log.read_text(encoding="utf-8", errors="replace")
        if code == 0 and same:
            assert json.loads(said) == json.loads(result), f"{what}: it ran to another result"
        assert code in (0, 2, 3, 4), f"{what}: exit code {code}\n{said[-2000:]}"
        counts["ran" if code != 2 else "refused"] += 1
    return counts


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[bytes, str]]:
    """The bytes of a program compiled for the samples' machine, and what `kbsim run --json` says of it."""
    (tmp_path / "npu.yaml").write_text(MACHINE, encoding="utf-8")
    machine = load_config(tmp_path / "npu.yaml")
    save_compiled(tiles(), machine, tmp_path / "tiles.kbp")
    capsys.readouterr()
    assert exit_code(["run", str(tmp_path / "tiles.kbp"), "-c", str(tmp_path / "npu.yaml"), "--json"]) == 0  # imports all
    yield (tmp_path / "tiles.kbp").read_bytes(), capsys.readouterr().out


def test_changed_files_are_refused_or_run_as_before(tmp_path: Path, files: tuple[bytes, str]) -> None:
    data, result = files
    draw = random.Random(24)
    counts = search(tmp_path, changed_elements(data, draw, 1), result)
    counts += search(tmp_path, changed_entries(data, draw, 20), result, same=False)
    counts += search(tmp_path, changed_heads(data, draw, 10), result, same=False)
    print(dict(counts))
    assert counts["refused"] > 40


@pytest.mark.nightly
def test_changed_files_long(tmp_path: Path, files: tuple[bytes, str]) -> None:
    data, result = files
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    draw = random.Random(seed)
    counts = search(tmp_path, changed_shapes(data), result)
    counts += search(tmp_path, changed_elements(data, draw, 60), result)
    counts += search(tmp_path, changed_entries(data, draw, 2000), result, same=False)
    counts += search(tmp_path, changed_heads(data, draw, 1000), result, same=False)
    print(dict(counts))


def columns_as_one_by_one(machine: dict[str, Any], raw: dict[str, Any]) -> None:
    """The columns of a program say of each entry what is said of it alone, and keep the rules of tables."""
    config, program = load_config(machine), load_program(raw)
    tables = lower_program(program, config, regular=True)
    assert broken_rule(tables, len(program.entries), plan_program(program, config)) is None
    for kind in ("dma", "compute"):
        rows = tables[kind]
        for row, index in enumerate(rows["entry"].tolist()):
            entry = program.entries[index]
            if kind == "compute":
                regions = regions_of(entry, config)
                time, count = service_cycles(entry, config), int(rows["regions"][row])
                assert [rows[name][row] for name in ("init", "body", "finalize")] == [time.init, time.body, time.finalize]
                found = zip(*(rows[f"region_{name}"][row, :count].tolist() for name in ("addr", "bytes", "write")), strict=True)
                assert rows["work"][row] == work_of(entry)
                assert list(found) == [(one.addr, one.nbytes, one.write) for one in regions]
                continue
            alone = transfer_of(entry, config)
            given = {"nbytes": alone.bytes_aligned}
            given |= {name: getattr(alone, name) for name in EXTENT}
            assert {name: rows[name][row] for name in given} == given


@settings(max_examples=15)
@given(system=systems())
def test_columns_are_those_of_entries(system: Any) -> None:
    columns_as_one_by_one(*system)


@pytest.mark.nightly
@settings(max_examples=5000)
@given(system=systems())
def test_columns_are_those_of_entries_long(system: Any) -> None:
    columns_as_one_by_one(*system)


@settings(max_examples=25)
@given(system=systems(), draw=st.randoms(use_true_random=False))
def test_other_numbers_are_refused_or_fit_the_machine(system: Any, draw: random.Random) -> None:
    """Numbers of entries, changed: whatever `lower_program` takes keeps every rule of tables, and is read as it is."""
    machine, raw = system
    config, program = load_config(machine), load_program(raw)
    entry = draw.choice(program.entries)
    names = [name for name in entry.__struct_fields__ if name != "index" and type(getattr(entry, name)) is int]
    name = draw.choice(names)
    value = draw.choice([value for value in VALUES if value >= 0] + [getattr(entry, name) + 1])
    if "qbits" in name or (value == 0 and name in POSITIVE):
        return
    changed = msgspec.structs.replace(entry, **{name: value})
    program.entries[entry.index] = changed
    try:
        tables = lower_program(program, config, regular=True)
    except (InputError, InternalError):
        return
    assert broken_rule(tables, len(program.entries), plan_program(program, config)) is None
    assert load_program(program.to_dict()).entries == program.entries
