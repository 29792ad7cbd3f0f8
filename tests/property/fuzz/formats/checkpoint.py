"""Checkpoints: the state of a run as binary tables, sealed by a checksum that is made again after a change."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.property.fuzz.bases import System, npu_systems, pe_systems
from tests.property.fuzz.case import Case
from tests.property.fuzz.formats.machine_files import ON
from tests.property.fuzz.harness import Limits, api_exit_code, run_case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed
from tests.property.fuzz.words import words_changed

MAGIC = b"KBCKPT 1\n"
STOPS = (
    ("--cycles", "1"),
    ("--cycles", "10"),
    ("--cycles", "37"),
    ("--cycles", "150"),
    ("--cycles", "900"),
    ("--until", "stall"),
)


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint, taken apart."""

    system: System
    head: dict[str, Any]
    state: bytes  #: unpacked, that of the trace behind it
    trace: bytes  #: the trace so far

    @property
    def trace_bytes(self) -> int:
        """How much of the state is the trace's."""
        return int(self.head["trace_bytes"])


def taken_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and unpacked state of a checkpoint."""
    head, _, body = data[len(MAGIC) :].partition(b"\n")
    return json.loads(head), zlib.decompress(body)


def sealed(head: dict[str, Any], state: bytes, trace_bytes: int) -> bytes:
    """A checkpoint whose sizes and checksum are those of its state."""
    digest = hashlib.sha256(b"%d\n" % trace_bytes + state).hexdigest()
    made = {**head, "state_bytes": len(state), "trace_bytes": trace_bytes, "sha256": digest}
    return packed(made, zlib.compress(state, 1))


def packed(head: dict[str, Any], body: bytes) -> bytes:
    """A checkpoint of a header and of what is packed, whatever they are."""
    return MAGIC + json.dumps(head, sort_keys=True).encode() + b"\n" + body


def resume(arguments: tuple[str, ...]) -> int:
    """`PROGRAM MACHINE CHECKPOINT WAY`: go on to the end by the Python API, stepped, skipped or saved once more."""
    from kernbench import Machine, load_config, load_program

    program, machine, checkpoint, way = arguments

    def run() -> int:
        config = load_config(machine)
        made = Machine(config, load_program(program))
        made.load(checkpoint)
        if way == "saved":  # what comes back must stand another round trip
            made.restore(made.snapshot())
        made.run(cycles=2_000_000, skip=way != "stepped")
        made.result().to_dict()
        made.peek().to_dict()
        return 0

    return api_exit_code(run)


class CheckpointFormat:
    """Checkpoints of programs on NPUs and systems, traced and not."""

    name = "checkpoint"

    def __init__(self, number: int, count: int) -> None:
        rng = Random(f"checkpoint {number}")
        systems = [*npu_systems(count, number), *pe_systems(count // 2, number)]
        self.bases: list[Saved] = []
        for i, system in enumerate(systems):
            for stop in rng.sample(STOPS, 2 if count > 4 else 1):
                traced = i % 4 == 0
                saved = save(system, stop, "full" if i % 8 == 0 else "summary", traced)
                if saved is not None:
                    self.bases.append(saved)

    def sound(self) -> list[Case]:
        """Every checkpoint as it is, sealed here, and gone on from."""
        return [
            self._case(Random(i), saved, sealed(saved.head, saved.state, saved.trace_bytes))
            for i, saved in enumerate(self.bases)
        ]

    def mutated(self, rng: Random) -> Case:
        """A checkpoint with other words in its state, as a rule with the checksum of these."""
        saved = rng.choice(self.bases)
        return self._case(rng, saved, changed_checkpoint(rng, saved))

    def _case(self, rng: Random, saved: Saved, data: bytes) -> Case:
        machine, program = saved.system
        files = {"m.yaml": as_yaml(machine), "p.json": as_json(program), "x.ckpt": data}
        way = rng.randrange(10)
        if way < 7:
            return Case(("p.json", "m.yaml", "x.ckpt", rng.choice(("stepped", "skipped", "saved"))), files, call=resume)
        step = ("step", "p.json", *ON, "--from", "x.ckpt")
        if saved.trace and way < 9:
            return Case((*step, "--cycles", "1000000", "--trace", "t.jsonl"), {**files, "t.jsonl": saved.trace})
        more = rng.choice(((), ("--json",), ("--save", "y.ckpt"), ("--watch",)))
        cycles = rng.choice(("0", "1", "100", "1000000"))
        return Case((*step, "--cycles", "200000" if more == ("--watch",) else cycles, *more), files)

    def readers(self) -> list[tuple[Case, str]]:
        """`step --from`, and the trace that it goes on with."""
        plain = next(saved for saved in self.bases if not saved.trace)
        traced = next(saved for saved in self.bases if saved.trace)
        found = []
        for saved, name in ((plain, "x.ckpt"), (traced, "t.jsonl")):
            machine, program = saved.system
            data = sealed(saved.head, saved.state, saved.trace_bytes)
            files = {"m.yaml": as_yaml(machine), "p.json": as_json(program), "x.ckpt": data}
            step = ("step", "p.json", *ON, "--from", "x.ckpt", "--cycles", "1000000")
            case = Case((*step, "--trace", "t.jsonl"), {**files, "t.jsonl": saved.trace}) if saved.trace else Case(step, files)
            found.append((case, name))
        return found


def save(system: System, stop: tuple[str, ...], level: str, traced: bool) -> Saved | None:
    """A checkpoint that `kbsim step` saves; None where the run was over by then."""
    import tempfile

    machine, program = system
    files = {"m.yaml": as_yaml(machine), "p.json": as_json(program)}
    arguments = ("step", "p.json", *ON, *stop, "--save", "x.ckpt")
    if traced:
        arguments += ("--trace", "t.jsonl", "--trace-level", level)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        ended = run_case(Case(arguments, files), place, Limits())
        if not (place / "x.ckpt").exists():
            assert not ended.failed, ended
            return None
        head, state = taken_apart((place / "x.ckpt").read_bytes())
        return Saved(system, head, state, (place / "t.jsonl").read_bytes() if traced else b"")


def changed_checkpoint(rng: Random, saved: Saved) -> bytes:
    """One change: mostly of words of the state; of its length, of the trace's JSON, of the header, of the packed bytes."""
    head, state, trace = saved.head, saved.state, saved.trace_bytes
    core, of_trace = state[: len(state) - trace], state[len(state) - trace :]
    way = rng.randrange(100)
    if way < 78:
        return sealed(head, words_changed(rng, core) + of_trace, trace)
    if way < 82:
        cut = rng.randrange(len(core))
        made = rng.choice((core[:cut], core + core[cut:], core[cut:], core + bytes(8), b"", core[:-8], core[:8] * 1000))
        return sealed(head, made + of_trace, trace)
    if way < 86:
        made = bytes_changed(rng, core)
        return sealed(head, made + of_trace, trace)
    if way < 92 and trace:
        own = as_json(changed(rng, json.loads(of_trace)))
        return sealed(head, core + own, len(own))
    if way < 96:
        whole = json.loads(sealed(head, state, trace)[len(MAGIC) :].partition(b"\n")[0])
        kept = rng.choice((as_json(changed(rng, whole)), as_json(changed(rng, {k: whole[k] for k in _SIZES}, whole))))
        if rng.random() < 0.5:
            kept = as_json({**whole, **dict(_as_dict(changed(rng, {k: whole[k] for k in _SIZES})))})
        return MAGIC + kept + b"\n" + zlib.compress(state, 1)
    if way < 98:
        return bytes_changed(rng, sealed(head, state, trace))
    body = zeros(rng.choice((10, 10, 1200)))
    return packed(
        {**head, "state_bytes": rng.choice((10**12, len(state), 2**63, 2**31)), "trace_bytes": 0, "sha256": "0" * 64}, body
    )


@cache
def zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros, packed to a thousandth."""
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()


_SIZES = ("state_bytes", "trace_bytes", "sha256", "cycle")


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
