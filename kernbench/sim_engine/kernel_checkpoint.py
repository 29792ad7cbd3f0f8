"""Checkpoints of runs with kernels: the identity of the run, its cycle, and a hash of its state there.

A kernel is Python code in the middle of a function, and cannot be saved. The run is therefore repeated exactly from its inputs
up to the same cycle, and its state is compared.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from kernbench.common.errors import InputError, Problem, shown
from kernbench.sim_engine.checkpoint import read_checkpoint, write_checkpoint
from kernbench.sim_engine.engine import GraphEngine

BODY_BYTES = 16 << 20  # [B] limit of the identity of the run
REMEDY = "make the checkpoint again with `kbsim step --save`"
#: Keys of the identity of a run, in addition to `params`, with rule and remedy for a difference.
MISMATCH = {
    "bench": ("the checkpoint is of another bench", "give the bench it was saved with"),
    "source": ("the bench's code has changed since", REMEDY),
    "strict_wait": ("the checkpoint is of a run with the other setting of --strict-wait", "give the options it was saved with"),
}


class _Body(msgspec.Struct):
    """The identity of the run, and its cycle."""

    bench: str
    source: str
    strict_wait: bool
    params: dict[str, Any]
    cycle: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    state: str


def state_hash(engine: GraphEngine) -> str:
    """SHA-256, in hex, of the state of every engine, counter and kernel of a run, and of its inputs."""
    machine, running = engine.machine, engine.activity
    state = {
        "cycle": machine.cycle,
        "status": machine.status,
        "engines": machine.peek().to_dict(),
        "members": machine.peek().members,
        "counters": machine.result().counters,
        "activity": running.state(),
        "logged": 0 if engine.op_log is None else len(engine.op_log),
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def save_run(engine: GraphEngine, path: str | os.PathLike[str], what: Mapping[str, Any]) -> None:
    """Write a checkpoint of a run; `what`: its `params`, and the keys of `MISMATCH`.

    InputError if the file cannot be written.
    """
    machine = engine.machine
    body = {**what, "cycle": machine.cycle, "state": state_hash(engine)}
    header = {**machine._header(), "cycle": machine.cycle}
    write_checkpoint(path, header, json.dumps(body, sort_keys=True).encode())


def restore_run(engine: GraphEngine, path: str | os.PathLike[str], what: Mapping[str, Any]) -> None:
    """Run to the cycle of a checkpoint of the same run.

    InputError if it is from another run, or if this run does not reach the same state.
    """
    machine, where = engine.machine, str(path)
    body = _body(where, read_checkpoint(path, machine._header(), BODY_BYTES, 0)[0])
    for key, (rule, remedy) in MISMATCH.items():
        value = getattr(body, key)
        if value != what[key]:
            raise InputError(Problem(where, f"{rule}, and this run's is {shown(what[key])}", key, value, remedy))
    remedy = "give the --set it was saved with"
    params = [
        Problem(where, f"in this run it is {shown(value)}", f"params.{name}", body.params.get(name), remedy)
        for name, value in what["params"].items()
        if body.params.get(name) != value
    ]
    if params:
        raise InputError(params)
    machine.run(cycles=body.cycle)
    if state_hash(engine) != body.state:
        rule = f"the run is not in the saved state in cycle {machine.cycle}: it depends on more than its inputs"
        raise InputError(Problem(where, rule, remedy="remove clocks and unseeded random numbers from the bench"))


def _body(where: str, state: bytes) -> _Body:
    try:
        return msgspec.json.decode(state, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InputError(Problem(where, "it is not a checkpoint of a bench", remedy=REMEDY)) from None
