"""Checkpoints of traced runs in which where the trace stands was changed, and sealed again: each is refused, or goes on."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.cli.main import exit_code
from kernbench.sim_engine.checkpoint import MAGIC
from tests.cli.samples import MACHINE, tiles
from tests.hostile import VALUES, in_child

RUN = ("step", "tiles.json", "--config", "small.yaml", "--trace", "t.jsonl")
RECORD = 12  # 64-bit words of a record of the core
BATCH = 20  #: checkpoints that one child takes up: a fork of a large process takes longer than most of them
Parts = tuple[dict[str, Any], bytes, dict[str, Any]]  #: header, snapshot, where the trace stands


def parts_of(data: bytes) -> Parts:
    line, _, body = data[len(MAGIC) :].partition(b"\n")
    header, state = json.loads(line), zlib.decompress(body)
    end = len(state) - header["trace_bytes"]
    return header, state[:end], json.loads(state[end:])


def checkpoint_of(header: dict[str, Any], snapshot: bytes, trace: bytes) -> bytes:
    """A checkpoint whose sizes and checksum fit."""
    digest = hashlib.sha256(b"%d\n" % len(trace) + snapshot + trace).hexdigest()
    sizes = {"state_bytes": len(snapshot + trace), "trace_bytes": len(trace), "sha256": digest}
    return MAGIC + json.dumps({**header, **sizes}).encode() + b"\n" + zlib.compress(snapshot + trace, 1)


def places_of(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in plain data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places_of(value, (*at, key))


def changed_states(state: dict[str, Any], draw: random.Random, each: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place of the JSON, `each` times: another value, no value, or one more."""
    strange = (*VALUES, None, True, 1.5, "", "x", "9" * 5000, [], {}, [[0, 0]], [None])
    for place in places_of(state):
        for _ in range(each):
            other = copy.deepcopy(state)
            holder = other
            for key in place[:-1]:
                holder = holder[key]
            key = place[-1]
            how = draw.choice(("set", "set", "set", "drop", "more"))
            if how == "drop":
                del holder[key]
            elif how == "more" and isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            else:
                holder[key] = draw.choice(strange)
            yield f"{place} {how}", other


def changed_records(state: dict[str, Any], draw: random.Random, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """One word, or half a word, of the core's records, replaced; or records cut."""
    records = base64.b64decode(state["records"]) or bytes(8 * RECORD)
    for _ in range(count):
        words = np.frombuffer(records, dtype=np.int64).copy()
        at = draw.randrange(len(words))
        value = draw.choice((*VALUES, int(words[at]) + 1, int(words[at]) ^ (draw.getrandbits(31) << 32)))
        words[at] = max(min(value, 2**63 - 1), -(2**63))
        changed = words.tobytes() if draw.random() < 0.95 else records[: draw.randrange(len(records))]
        yield f"word {at} of the records = {value}", {**state, "records": base64.b64encode(changed).decode()}


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Checkpoints of a traced run at several cycles and levels; its trace so far is beside."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(MACHINE, encoding="utf-8")
    tiles().save("tiles.json")
    found = []
    for cycles, level in ((1300, "access"), (601, "summary")):
        assert exit_code([*RUN, "-n", str(cycles), "--save", "x.ckpt", "--trace-level", level]) == 0
        found.append(Path("x.ckpt").read_bytes())
        Path("t.jsonl").rename(f"t{len(found) - 1}.jsonl")
        (tmp_path / "t.jsonl").write_bytes((tmp_path / f"t{len(found) - 1}.jsonl").read_bytes())
        assert exit_code([*RUN, "-n", "100000", "--from", "x.ckpt"]) == 0  # imports all that goes on
        Path("t.jsonl").unlink()
    return found


def search(saved: list[bytes], draw: random.Random, each: int, records: int) -> Counter[str]:
    """How they ended; fails where one did otherwise than a file may."""
    counts: Counter[str] = Counter()
    log, codes = Path("log.txt"), Path("codes.txt")
    for number, data in enumerate(saved):
        header, snapshot, state = parts_of(data)
        whole = Path(f"t{number}.jsonl").read_bytes()

        def take_up(cases: Sequence[tuple[str, dict[str, Any]]]) -> int:
            """Take up each, and write down its exit code; 0 where each ended as a file may."""
            for _, other in cases:
                Path("y.ckpt").write_bytes(checkpoint_of(header, snapshot, json.dumps(other).encode()))  # noqa: B023
                Path("t.jsonl").write_bytes(whole)  # noqa: B023
                code = exit_code([*RUN, "-n", "100000", "--from", "y.ckpt"])
                if code not in (0, 2):
                    return code
                with codes.open("a", encoding="ascii") as file:
                    file.write(f"{code}\n")
            return 0

        cases = [*changed_states(state, draw, each), *changed_records(state, draw, records)]
        for first in range(0, len(cases), BATCH):
            batch = cases[first : first + BATCH]
            codes.write_text("", encoding="ascii")
            ended = in_child(partial(take_up, batch), log)
            found = codes.read_text(encoding="ascii").split()
            if ended or len(found) < len(batch):
                said = log.read_text(encoding="utf-8", errors="replace")
                pytest.fail(f"{number}: {batch[len(found)][0]}: exit code {ended}\n{said[-2000:]}")
            counts.update("went on" if code == "0" else "refused" for code in found)
    return counts


def test_changed_trace_states(saved: list[bytes]) -> None:
    counts = search(saved[:1], random.Random(24), 1, 8)
    print(dict(counts))
    assert counts["refused"] > 50


@pytest.mark.nightly
def test_changed_trace_states_long(saved: list[bytes]) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    print(dict(search(saved, random.Random(seed), 4, 600)))
