"""Mutated programs and machines: whatever is done to them, they are read or refused with InputError, and soon.

Nothing else may come out: no other exception, no hang, no message of more than a few lines.
"""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.bounds import summarise
from kernbench.cmdq import Program, check_program, load_program
from kernbench.common.errors import InputError
from kernbench.config import NpuConfig, load_config

# A hang is a failure; the deadline is far from what any example takes, so that a busy machine is none.
RELAXED = settings(deadline=timedelta(seconds=20), suppress_health_check=list(HealthCheck))
QUICK = settings(RELAXED, max_examples=60)
LONG = settings(RELAXED, max_examples=4000)
PLACE: dict[str, Any] = {"spm_bank": 0, "spm_offset": 0}
TE: dict[str, Any] = {
    "m": 8,
    "n": 8,
    "k": 8,
    "qbits_weight": 4,
    "qbits_activation": 8,
    "ifm_bank": 0,
    "ifm_offset": 0,
    "wgt_bank": 0,
    "wgt_offset": 64,
    "ofm_bank": 0,
    "ofm_offset": 128,
}
VE: dict[str, Any] = {"length": 8, "qbits_activation": 8, "in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 0}
KV: dict[str, Any] = {"head_id": 0, "kv_kind": "k", "dram_base_addr": 0, "qbits_kv": 4, **PLACE}


def sound_program() -> dict[str, Any]:
    program = Program("sound")
    tile = program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=64, **PLACE, debug={"a": [1, {"b": 2}]})
    program.dma_store(tensor_role="kv", qbits=4, dram_addr=0, rows=3, row_elements=5, stride_bytes=7, **PLACE, phase="decode")
    program.kv_load(**KV, kv_range={"t_start": 0, "t_len": 2, "d_start": 2, "d_len": 2})
    program.kv_store(**KV, t_start=0, t_len=1)
    program.te_gemm(**TE, deps_before=[tile])
    program.ve_add(**VE, in2_bank=0, in2_offset=0, deps_after=[6])
    program.barrier(wait_for=[tile], token=3)
    program.end()
    return program.to_dict()


def sound_machine() -> dict[str, Any]:
    """Small counts: a mutation must not make a sound machine that is merely huge."""
    return load_config({"noc": {}, "te": {"timing": "systolic", "rows": 2, "cols": 2, "dataflow": "os"}}).to_dict()


STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**50, 10**200, -(2**63), 10**5000]),
    st.sampled_from([0.0, -0.0, 0.1, 1.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan")]),
    st.sampled_from(
        ["", "0", "1 GiB", "1 KB", "9" * 5000, "\ud800", "\0", "x" * 10_000, "nan", "1/0", "🙂", "KV_LOAD_TILE", "1.0"]
    ),
    # Copies: a drawn value may be changed again, and the list must not be.
    st.sampled_from([[], {}, [[]], [[[1]]], {"": 1}, {"a": {"b": {}}}, [None], [1, 2, 3], ["a"], [True]]).map(copy.deepcopy),
    st.builds(lambda depth: nested(depth), st.sampled_from([3, 50, 70, 500, 5000])),
    st.integers(),
    st.text(max_size=8),
)


KEYS = st.sampled_from(
    ["reserved_x", "debug", "period", "id", "deps_before", None, 1.5, True, 8, (1, 2), 10**5000, float("nan")]
)


def nested(depth: int) -> Any:
    value: Any = 1
    for i in range(depth):
        value = [value] if i % 2 else {"a": value}
    return value


def places_of(data: Any) -> list[tuple[Any, Any]]:
    """(container, key or index) of everything in plain data."""
    found = []
    stack, seen = [data], set()
    while stack:
        holder = stack.pop()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                stack.append(holder[key])
    return found


def mutate(data: Any, draw: Any) -> None:
    """One change of plain data, in place."""
    places = places_of(data)
    if not places:
        return
    holder, key = draw(st.sampled_from(places))
    kind = draw(st.sampled_from(["replace", "delete", "add", "rename", "copy"]))
    if kind == "replace":
        holder[key] = draw(STRANGE)
    elif kind == "delete":
        del holder[key]
    elif kind == "add" and isinstance(holder, dict):
        holder[draw(st.one_of(st.text(max_size=6), KEYS))] = draw(STRANGE)
    elif kind == "rename" and isinstance(holder, dict):
        holder[draw(st.text(max_size=6))] = holder.pop(key)
    else:
        other, other_key = draw(st.sampled_from(places))
        holder[key] = other[other_key]  # the same object: it may even hold itself now


def brief(error: InputError) -> None:
    text = str(error)
    assert 1 <= len(text.splitlines()) <= 21
    assert len(text) < 20_000
    assert all(line.isprintable() for line in text.splitlines())


@st.composite
def mutated(draw: Any, make: Any) -> Any:
    data = make()
    for _ in range(draw(st.integers(1, 3))):
        mutate(data, draw)
    return data


def read_program(source: Any, config: NpuConfig) -> bool:
    try:
        program = load_program(source)
        check_program(program, config)
    except InputError as error:
        brief(error)
        return False
    summarise(program, config)
    assert load_program(program.to_dict()) == program
    json.dumps(program.to_dict(), ensure_ascii=False, allow_nan=False).encode()
    return True


def read_machine(source: Any) -> bool:
    try:
        config = load_config(source)
    except InputError as error:
        brief(error)
        return False
    assert load_config(config.to_dict()) == config
    config.effective()
    return True


def test_the_unchanged_inputs_are_sound() -> None:
    assert read_machine(sound_machine())
    assert read_program(sound_program(), load_config(sound_machine()))


DEFAULT = load_config({})


@QUICK
@given(mutated(sound_program), mutated(sound_machine))
def test_mutated_dicts(program: Any, machine: Any) -> None:
    read_program(program, DEFAULT)
    read_machine(machine)


@pytest.mark.nightly
@LONG
@given(mutated(sound_program), mutated(sound_machine))
def test_mutated_dicts_for_long(program: Any, machine: Any) -> None:
    read_program(program, DEFAULT)
    read_machine(machine)


PIECES = [b"\xff", b"\xef\xbb\xbf", b"\0", b"{", b"[" * 300, b'"', b"NaN", b"1e9999999", b"9" * 5000, b"\\ud800", b",", b": "]
PIECES += [b"\n- ", b"&a ", b"*a ", b"!!x ", b"<<: ", b"---\n", b"on", b"012", b"? ", b"|", b"\t", b"-", b"#", b"\xe2\x80\xa8"]


def mutated_text(text: str, draw: Any) -> bytes:
    """Bytes of a file: cut short, overwritten, a piece twice, or with a sudden insertion."""
    content = text.encode()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.integers(0, 30)))
        kind = draw(st.sampled_from(["cut", "drop", "twice", "insert"]))
        if kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[end:]
        elif kind == "twice":
            content = content[:end] + content[at:]
        else:
            content = content[:at] + draw(st.sampled_from(PIECES)) + content[at:]
    return content


@st.composite
def mutated_file(draw: Any, make: Any) -> tuple[str, bytes]:
    suffix = draw(st.sampled_from([".json", ".yaml"]))
    text = json.dumps(make(), indent=1) if suffix == ".json" else yaml.safe_dump(make(), sort_keys=False)
    return suffix, mutated_text(text, draw)


def read_files(folder: Path, program: tuple[str, bytes], machine: tuple[str, bytes]) -> None:
    path = folder / f"p{program[0]}"
    path.write_bytes(program[1])
    read_program(path, DEFAULT)
    assert path.read_bytes() == program[1]
    path = folder / f"m{machine[0]}"
    path.write_bytes(machine[1])
    read_machine(path)


@QUICK
@given(mutated_file(sound_program), mutated_file(sound_machine))
def test_mutated_files(tmp_path: Path, program: tuple[str, bytes], machine: tuple[str, bytes]) -> None:
    read_files(tmp_path, program, machine)


@pytest.mark.nightly
@LONG
@given(mutated_file(sound_program), mutated_file(sound_machine))
def test_mutated_files_for_long(tmp_path: Path, program: tuple[str, bytes], machine: tuple[str, bytes]) -> None:
    read_files(tmp_path, program, machine)


@QUICK
@given(st.binary(max_size=200), st.sampled_from([".json", ".yaml"]))
def test_any_bytes(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    assert not read_program(path, DEFAULT)
    read_machine(path)


PATHS = ["dram.channels", "te.f_w.4", "kv_layouts[0]", "noc.dma_at[0][1]", "spm", "energy.mac_pj.8", "dma..x", "a[9999999]"]
VALUES = ["1", "{}", "[]", "[[0, 0]]", "1.5", "null", "on", "*a", "1e3", "64 KiB", "9" * 5000]


@QUICK
@given(st.one_of(st.text(max_size=20), st.sampled_from(PATHS)), st.one_of(st.text(max_size=20), st.sampled_from(VALUES)))
def test_any_override(path: str, value: str) -> None:
    for overrides in ([f"{path}={value}"], {path: value}):
        try:
            load_config({"noc": {}}, overrides)
        except InputError as error:
            brief(error)


@pytest.mark.parametrize("depth", [100, 10_000])
def test_deep_data_is_refused_and_does_not_exhaust_the_stack(depth: int) -> None:
    for source in ({"debug": nested(depth)}, {"noc": nested(depth)}, {"kv_layouts": [nested(depth)]}):
        assert not read_machine(source)
    entry = {"opcode": "NOP", "debug": nested(depth)}
    assert not read_program({"metadata": {"version": "1.0"}, "cmdq": [entry]}, DEFAULT)


def test_data_that_holds_itself() -> None:
    loop: dict[str, Any] = {"opcode": "NOP"}
    loop["debug"] = loop
    assert not read_program({"metadata": {"version": "1.0"}, "cmdq": [loop]}, DEFAULT)
    machine: dict[str, Any] = {}
    machine["dram"] = machine
    assert not read_machine(machine)
