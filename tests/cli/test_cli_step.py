"""`kbsim step`: stopping, looking, and going on from a file."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from kernbench import load_config, load_program
from kernbench.sim_engine.json_schema import result_json_schema
from kernbench.sim_engine.machine import Machine
from tests.cli.conftest import Kbsim
from tests.schemas import validator_of

SMALL = ("--config", "small.yaml")
LAST = 3410  # cycles of tiles.json; its END completes at the begin of cycle 3410, which is not run


def stepped(kbsim: Kbsim, *arguments: str) -> dict[str, Any]:
    """What `kbsim step tiles.json ... --json` prints; it must fit the schema of results."""
    said = kbsim("step", "tiles.json", *SMALL, "--json", *arguments)
    assert said.err == ""
    state = json.loads(said.out)
    validator_of(result_json_schema).validate(state)
    assert isinstance(state, dict)
    return state


def machine() -> Machine:
    """The machine that `stepped` steps."""
    return Machine(load_config("small.yaml"), load_program("tiles.json"))


@pytest.mark.parametrize("cycles", [0, 1, 150, 700, LAST, LAST + 1])
def test_json_is_the_result_so_far_and_the_engines(cycles: int, kbsim: Kbsim) -> None:
    stepping = machine()
    stepping.step(cycles)
    state = stepped(kbsim, "--cycles", str(cycles))
    assert state.pop("engines") == stepping.peek().to_dict()
    assert state == stepping.result().to_dict()
    assert state["cycles"] == min(cycles, LAST)
    assert state["status"] == ("done" if cycles > LAST else "running")


@pytest.mark.parametrize(("first", "second"), [(0, 90), (17, 1), (150, 450), (700, 2000), (1, LAST)])
def test_going_on_from_a_file_is_not_stopping(first: int, second: int, kbsim: Kbsim) -> None:
    stepped(kbsim, "--cycles", str(first), "--save", "here.ckpt")
    state = stepped(kbsim, "--cycles", str(second), "--from", "here.ckpt", "--save", "there.ckpt")
    assert state == stepped(kbsim, "--cycles", str(first + second))
    end = str(LAST + 1)
    assert stepped(kbsim, "--cycles", end, "--from", "there.ckpt") == stepped(kbsim, "--cycles", end)


def test_going_on_to_the_end_is_running(kbsim: Kbsim) -> None:
    stepped(kbsim, "--cycles", "333", "--save", "here.ckpt")
    state = stepped(kbsim, "--until", "end:21", "--from", "here.ckpt")
    assert stepped(kbsim, "--cycles", "1", "--from", "here.ckpt")["cycles"] == 334
    ran = json.loads(kbsim("run", "tiles.json", *SMALL, "--json").out)
    assert {key: state[key] for key in ran} == ran


@pytest.mark.parametrize(
    ("until", "cycles"),
    [
        ("cycle:77", 77),
        ("start:4", 1),  # the cycle in which it starts is the last
        ("end:4", 425),
        ("start:2", 594),
        ("end:2", 1288),
        ("end:12", 1984),  # a barrier: it completes at the begin of cycle 1983
        ("start:12", 1984),
        ("stall", 1),
        ("conflict", 17),
        ("end:21", LAST),
    ],
)
def test_until_stops_after_the_cycle_in_which_it_comes(until: str, cycles: int, kbsim: Kbsim) -> None:
    assert stepped(kbsim, "--until", until)["cycles"] == cycles
    said = kbsim("step", "tiles.json", *SMALL, "--until", until)
    assert said.out.splitlines()[0].endswith(f"cycle {cycles:,}, {until} has come")


@pytest.mark.parametrize("name", ["tiles.json", "clash.json"])
@pytest.mark.parametrize("penalty", [1, 9])
def test_a_conflict_stops_after_its_own_cycle_however_long_the_penalty(name: str, penalty: int) -> None:
    config = load_config("small.yaml", [f"spm.conflict_penalty_cycles={penalty}"])
    found, watched = Machine(config, load_program(name)), Machine(config, load_program(name))
    assert found.run("conflict")
    while not sum(watched.result().counters["spm"]["denials"]):
        watched.step()
    assert found.cycle == watched.cycle


@pytest.mark.parametrize("until", ["start:2", "end:2", "end:12"])
def test_what_has_come_already_stops_at_once(until: str, kbsim: Kbsim) -> None:
    stepped(kbsim, "--cycles", "2500", "--save", "here.ckpt")
    assert stepped(kbsim, "--until", until, "--from", "here.ckpt")["cycles"] == 2500


@pytest.mark.parametrize(
    ("arguments", "cycles", "note"),
    [
        (("--until", "end:2", "--cycles", "100"), 100, "end:2 has not come"),
        (("--until", "end:12", "--cycles", "100"), 100, "end:12 has not come"),
        (("--until", "conflict", "--cycles", "100"), 17, "conflict has come"),
        (("--until", "cycle:99999"), LAST, "cycle:99999 has not come, and the run is over"),
    ],
)
def test_what_comes_first_stops(arguments: tuple[str, ...], cycles: int, note: str, kbsim: Kbsim) -> None:
    first = kbsim("step", "tiles.json", *SMALL, *arguments).out.splitlines()[0]
    assert first.endswith(f"cycle {cycles:,}, {note}")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("tiles.json", "--set", "max_cycles=500"), 3),
        (("stuck.json",), 4),
        (("clash.json", "--set", "spm.check_overlap=error"), 5),
    ],
)
def test_a_run_that_ends_badly_leaves_with_its_code(arguments: tuple[str, ...], code: int, kbsim: Kbsim) -> None:
    assert kbsim("step", *arguments, *SMALL, "--cycles", "9999").code == code
    assert kbsim("step", *arguments, *SMALL, "--cycles", "1").code == 0


def test_watch_shows_a_state_every_so_many_cycles(kbsim: Kbsim) -> None:
    said = kbsim("step", "tiles.json", *SMALL, "--watch", "--cycles", "1000", "--until", "cycle:2500")
    heads = [line for line in said.out.splitlines() if line.startswith(("running", "done"))]
    assert heads == ["running  cycle 1,000", "running  cycle 2,000", "running  cycle 2,500, cycle:2500 has come"]
    frames = [kbsim("step", "tiles.json", *SMALL, "--cycles", str(cycles)).out for cycles in (1000, 2000)]
    assert said.out.startswith("\n".join(frames))


@pytest.fixture
def saved(kbsim: Kbsim) -> Path:
    stepped(kbsim, "--cycles", "200", "--save", "here.ckpt")
    return Path("here.ckpt")


FOREIGN = [
    (("--set", "te.engines=3"), "machine", "the checkpoint is of another machine"),
    (("--set", "allocation=fifo_v1"), "machine", "the checkpoint is of another machine"),
]


@pytest.mark.parametrize(("change", "field", "rule"), FOREIGN)
def test_a_checkpoint_of_another_machine_is_refused(
    change: tuple[str, ...], field: str, rule: str, saved: Path, kbsim: Kbsim
) -> None:
    said = kbsim("step", "tiles.json", *SMALL, *change, "--cycles", "1", "--from", str(saved))
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: here.ckpt: {field} = ") and rule in said.err
    assert said.err.endswith("; give the --config and --set it was saved with\n")


def test_a_checkpoint_of_another_program_is_refused(saved: Path, kbsim: Kbsim) -> None:
    said = kbsim("step", "clash.json", *SMALL, "--cycles", "1", "--from", str(saved))
    assert said.code == 2
    assert "the checkpoint is of another program" in said.err


@pytest.mark.parametrize("key", ["version", "model_version", "core"])
def test_a_checkpoint_of_another_build_is_refused(key: str, saved: Path, kbsim: Kbsim) -> None:
    magic, header, state = saved.read_bytes().split(b"\n", 2)
    changed = json.dumps({**json.loads(header), key: "0"}).encode()
    saved.write_bytes(b"\n".join([magic, changed, state]))
    said = kbsim("step", "tiles.json", *SMALL, "--cycles", "1", "--from", str(saved))
    assert said.code == 2
    assert said.err.startswith(f'error: here.ckpt: {key} = "0", but the checkpoint is of ')


def _flipped(data: bytes) -> bytes:
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


def _claiming(data: bytes, **claims: Any) -> bytes:
    magic, header, state = data.split(b"\n", 2)
    return b"\n".join([magic, json.dumps({**json.loads(header), **claims}).encode(), state])


DAMAGED = {
    "empty": (lambda data: b"", "it is not a kernbench checkpoint of version 1"),
    "other file": (lambda data: b"PK\3\4" + data, "it is not a kernbench checkpoint of version 1"),
    "later version": (
        lambda data: data.replace(b"KBCKPT 1", b"KBCKPT 2"),
        "it is not a kernbench checkpoint of version 1",
    ),
    "half a header": (lambda data: data[:40], "the checkpoint's header is damaged"),
    "header is a list": (lambda data: b"KBCKPT 1\n[]\n", "the checkpoint's header is damaged"),
    "deep header": (lambda data: b"KBCKPT 1\n" + b"[" * 60000 + b"\n", "the checkpoint's header is damaged"),
    "endless header": (lambda data: data[:9] + b" " * 70000 + data[9:], "the checkpoint's header is damaged"),
    "infinite size": (lambda data: _claiming(data, state_bytes=float("inf")), "the checkpoint's header is damaged"),
    "negative size": (lambda data: _claiming(data, state_bytes=-1), "does not match its size"),
    "huge size": (lambda data: _claiming(data, state_bytes=1 << 70), "the checkpoint's state is damaged"),
    "other place of the trace": (lambda data: _claiming(data, trace_bytes=1), "does not match its size"),
    "negative trace": (lambda data: _claiming(data, trace_bytes=-1), "does not match its size"),
    "one byte less": (lambda data: data[:-1], "does not match its size"),
    "more behind it": (lambda data: data + b"KBCKPT", "does not match its size"),
    "cut off": (lambda data: data[:-7], "does not match its size"),
    "no state": (lambda data: data[: data.index(b"\n", 9) + 1], "does not match its size"),
    "flipped bit": (_flipped, "the checkpoint's state"),
    "other checksum": (lambda data: _claiming(data, sha256="0" * 64), "does not match its size"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_checkpoint_is_refused(damage: str, saved: Path, kbsim: Kbsim) -> None:
    change, rule = DAMAGED[damage]
    saved.write_bytes(change(saved.read_bytes()))  # type: ignore[no-untyped-call]
    said = kbsim("step", "tiles.json", *SMALL, "--cycles", "1", "--from", str(saved))
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: here.ckpt: ") and rule in said.err


@pytest.mark.parametrize(("place", "reason"), [("missing.ckpt", "does not exist"), (".", "cannot be read: Is a directory")])
def test_a_checkpoint_that_cannot_be_read_is_refused(place: str, reason: str, kbsim: Kbsim) -> None:
    said = kbsim("step", "tiles.json", *SMALL, "--cycles", "1", "--from", place)
    assert said.err == f"error: {place}: the checkpoint {reason}; check the path\n"
    assert said.code == 2


def test_a_refused_step_leaves_an_existing_checkpoint_alone(saved: Path, kbsim: Kbsim) -> None:
    before = saved.read_bytes()
    assert kbsim("step", "tiles.json", *SMALL, "--until", "end:99", "--save", str(saved)).code == 2
    assert kbsim("step", "tiles.json", *SMALL, "-n", "1", "--from", "missing.ckpt", "--save", str(saved)).code == 2
    assert saved.read_bytes() == before


def test_a_checkpoint_that_cannot_be_saved_is_refused_before_the_run(kbsim: Kbsim) -> None:
    said = kbsim("step", "tiles.json", *SMALL, "--cycles", "1", "--save", "nowhere/here.ckpt")
    assert (said.code, said.out) == (2, "")
    assert "there is no directory" in said.err


def _resealed(data: bytes, change: Any) -> bytes:
    """A checkpoint with another state, whose size and checksum are made to fit it: the checksum has no key."""
    magic, header, body = data.split(b"\n", 2)
    state = change(zlib.decompress(body))
    claims = {**json.loads(header), "state_bytes": len(state), "sha256": hashlib.sha256(b"0\n" + state).hexdigest()}
    return b"\n".join([magic, json.dumps(claims).encode(), zlib.compress(state)])


def _word(at: int, value: int) -> Any:
    return lambda state: state[:at] + value.to_bytes(8, "little") + state[at + 8 :]


IMPOSSIBLE = {
    "a cycle past the end": (_word(0, 2**63 - 1), "Sim 0: cycle = 9223372036854775807: allowed are 0 to 100000000"),
    "a word of the queue": (_word(48, 2**31 - 1), "Entry 0: start = 2147483647: allowed are 0 to 10, or 9223372036854775807"),
    "an entry that was never issued": (_word(40, 2**63 - 1), "entry 0: it starts or ends, and was not issued"),
    "half of it": (lambda state: state[:300], "it ends inside the table of "),
    "more of it": (lambda state: state + b"0", "it has 1 bytes behind its last table"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_state_that_no_run_can_be_in_is_refused(name: str, kbsim: Kbsim) -> None:
    """Its header fits and its checksum holds: such a file crashed the core once."""
    tile = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0}
    program = {"metadata": {"version": "1.0", "name": "one"}, "cmdq": [{**tile, "num_elements": 4096}]}
    Path("one.json").write_text(json.dumps(program))
    assert kbsim("step", "one.json", "--config", "npu_mobile", "--cycles", "10", "--save", "one.ckpt").code == 0
    change, reason = IMPOSSIBLE[name]
    Path("one.ckpt").write_bytes(_resealed(Path("one.ckpt").read_bytes(), change))
    said = kbsim("step", "one.json", "--config", "npu_mobile", "--cycles", "1", "--from", "one.ckpt")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: one.ckpt: no run can be in this state: {reason}"), said.err
    assert said.err.endswith("; make the checkpoint again with `kbsim step --save`\n")
