"""Op logs: records of what kernels did to bytes, replayed. `python -m tests.property.fuzz.formats.op_log LOG` repeats one."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from kernbench.common.dtypes import dtype_of
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.op_log import OpLogger, OpRecord
from tests.property.fuzz.case import Case
from tests.property.fuzz.harness import api_exit_code
from tests.property.fuzz.trees import as_json, changed
from tests.replay_programs import random_program, run_phase_1, store_of

FIELDS = ("t_start", "t_end", "component_id", "op_kind", "op_name", "dependency_ids", "op_id")
KINDS = (["f32"], ["f16"], ["bf16"], ["i8", "i16", "i32"])


def to_plain(value: Any) -> Any:
    """A value of a record as JSON."""
    if isinstance(value, np.ndarray):
        name = dtype_of(value.dtype).name
        return {"array": name, "shape": list(value.shape), "bytes": value.tobytes().hex()}
    if isinstance(value, (tuple, list)):
        return {"tuple": [to_plain(one) for one in value]} if isinstance(value, tuple) else [to_plain(one) for one in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            return {"map": [[to_plain(key), to_plain(one)] for key, one in value.items()]}
        return {key: to_plain(one) for key, one in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def from_plain(value: Any) -> Any:
    """What `to_plain` made JSON of."""
    if isinstance(value, list):
        return [from_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"tuple"} and isinstance(value["tuple"], list):
        return tuple(from_plain(one) for one in value["tuple"])
    if "map" in value and isinstance(value["map"], list):
        pairs = [one for one in value["map"] if isinstance(one, list) and len(one) == 2 and isinstance(one[0], (int, str))]
        return {key: from_plain(one) for key, one in pairs}
    if "array" in value:
        try:
            return np.frombuffer(bytes.fromhex(value["bytes"]), dtype_of(value["array"]).numpy).reshape(value["shape"])
        except Exception:  # no array any more: that is one way to change it
            return None
    return {key: from_plain(one) for key, one in value.items()}


def replay(arguments: tuple[str, ...]) -> int:
    """Replay the log in a file."""

    def run() -> int:
        data = json.loads(Path(arguments[0]).read_bytes())
        store = store_of({name: bytes.fromhex(text) for name, text in data["spaces"].items()})
        records = []
        for one in data["records"]:
            given = {name: from_plain(one[name]) for name in FIELDS if name in one}
            records.append(OpRecord(params=from_plain(one.get("params", {})), **given))
        DataExecutor(records, store, threads=1, debug="debug" in arguments).run()
        return 0

    return api_exit_code(run)


def logged(rng: random.Random, count: int) -> dict[str, Any]:
    """A log of random ops as JSON."""
    program = random_program(rng, rng.choice(KINDS), count, rng.choice((1, 3, 12)))
    store = store_of(program.spaces)
    log = OpLogger(store)
    run_phase_1(program, log, store)
    records = [{**{name: to_plain(getattr(one, name)) for name in FIELDS}, "params": to_plain(dict(one.params))} for one in log]
    return {"spaces": {name: data.hex() for name, data in program.spaces.items()}, "records": records}


class OpLogFormat:
    """Logs of random ops: copies, products, sums and elementwise math on several types."""

    name = "op_log"

    def __init__(self, number: int, count: int) -> None:
        self.bases = [logged(random.Random(f"op log {number} {i}"), 1 + i % 12) for i in range(max(12, count))]

    def sound(self) -> list[Case]:
        """Every log, replayed."""
        return [Case(("log.json",), {"log.json": as_json(base)}, call=replay) for base in self.bases]

    def mutated(self, rng: Random) -> Case:
        """Other params, orders and dependencies. The fields of a record keep their names."""
        base = rng.choice(self.bases)
        made = {**base, "records": [dict(one) for one in base["records"]]}
        for _ in range(rng.choice((1, 1, 2))):
            record = rng.choice(made["records"])
            if rng.random() < 0.8:
                params = changed(
                    rng, record["params"], ("axis", "masked", "dtype_acc", "src_strides", "transpose_a", "acc_addr")
                )
                record["params"] = params if isinstance(params, dict) else record["params"]
            else:
                name = rng.choice(("t_start", "t_end", "op_name", "op_kind", "op_id"))
                record[name] = rng.choice(made["records"])[name]
        more = rng.choice(((), ("debug",)))
        return Case(("log.json", *more), {"log.json": as_json(made)}, call=replay)

    def readers(self) -> list[tuple[Case, str]]:
        """None: a log is in memory."""
        return []


if __name__ == "__main__":
    sys.exit(replay(tuple(sys.argv[1:])))
