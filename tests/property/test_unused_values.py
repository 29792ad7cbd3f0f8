"""A value that is said to have no effect has none: another one that has none either changes no result of any program."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.common.errors import InputError
from kernbench.config.effects import unused_values
from kernbench.config.overrides import apply_overrides, parse_overrides
from tests.row_strategies import controller_systems, row_systems
from tests.strategies import systems
from tests.systems_of_pes import systems_of_pes

Pair = tuple[dict[str, Any], dict[str, Any]]
SEEN: Counter[str] = Counter()
#: By the end of a path: what else it may be. The larger ones stay without effect where the value had none.
OTHERS: dict[str, list[Any]] = {
    "macs_per_cycle": [1, 77, 100_000],
    "f_w": [{}, {"8": 3}],
    "f_a": [{}, {"16": "1/3"}],
    "map": ["interleaved", "blocked"],
    "interleave_bytes": [64, 256, 4096, 65536],
    "weight": [1, 3, 7],
    "priority": [0, 1, 5],
    "kv_load_bonus": [0, 1, 7],
    "t_rfc": [1, 50, 400],
    "batch_bursts": [1, 2, 400],
    "cap": [1, 3, 400],
    "idle_clocks": [1, 7, 400],
    "row_buffer.map": ["row_bank_column_group", "row_column_bank_group"],
    "noc_pj_per_byte_hop": [0, 17],
    "hop_latency_cycles": [0, 40],
    "link_bytes_per_cycle": [1, 500],
    "conflict_penalty_cycles": [1, 9],
    "arbiter": ["oldest_first", "round_robin"],
    "max_wait_cycles": [0, 50],
    "backpressure_cycles": [1, 50],
    "cycles": [0, 999],
    "bytes_per_cycle": [1, 999],
    "mm": [0, 99],
}
#: Of these larger values have no effect either.
LARGER = ("peak_bw_bytes_per_cycle", "bus_width_bytes", "ports", "read_ports", "write_ports", "queue_depth_per_master",
          "max_concurrent_transfers", "max_concurrent")  # fmt: skip


def others(path: str, value: Any) -> list[Any]:
    """Other values that are without effect where this one is."""
    name = path.rpartition(".")[2]
    if name in LARGER:
        number = load_config({"dram": {"peak_bw_bytes_per_cycle": value}}).dram.peak_bw_bytes_per_cycle
        return [str(number + 1), str(number * 3)] if name.startswith("peak") else [int(number) + 1, int(number) * 3]
    if name == "dram_burst_cycles":
        return [value - 1] if value > 1 else []
    choices = OTHERS.get(".".join(path.split(".")[-2:]), OTHERS.get(name, []))
    return [other for other in choices if other != value]


def value_at(machine: dict[str, Any], path: str) -> Any:
    found: Any = machine
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def check(system: Pair, data: st.DataObject, *, most: int) -> None:
    given, program = system
    if "spm" in given and data.draw(st.integers(0, 3), label="many ports") == 0:
        ports = {key: 200 for key in given["spm"] if key.endswith("ports")} or {"ports": 200}
        given = {**given, "spm": {**given["spm"], **ports}}
    config = load_config(given)
    unused = [one.path for one in unused_values(config)]
    if not unused:
        return
    plain, parsed = config.to_dict(), load_program(program)
    run = Machine(config, parsed)
    run.run()
    want = run.result().to_dict()
    for path in data.draw(st.lists(st.sampled_from(unused), min_size=1, max_size=most, unique=True)):
        choices = others(path, value_at(plain, path))
        if not choices:
            continue
        other = data.draw(st.sampled_from(choices), label=path)
        try:
            changed = load_config(apply_overrides(plain, parse_overrides({path: other}), lambda at: None))
        except InputError as error:  # terms of 2^31, and rules between fields
            assert "2^31" in str(error) or "must be" in str(error)
            continue
        assert path in [one.path for one in unused_values(changed)]
        again = Machine(changed, parsed)
        again.run()
        assert again.result().to_dict() == want, path
        SEEN[path.rpartition(".")[2]] += 1


RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(RELAXED, max_examples=30)
@given(systems(), st.data())
def test_of_one_npu(system: Pair, data: st.DataObject) -> None:
    check(system, data, most=3)


@settings(RELAXED, max_examples=15)
@given(row_systems(), st.data())
def test_under_row_buffer(system: Pair, data: st.DataObject) -> None:
    check(system, data, most=3)


@settings(RELAXED, max_examples=15)
@given(controller_systems(), st.data())
def test_under_controllers(system: Pair, data: st.DataObject) -> None:
    check(system, data, most=3)


@settings(RELAXED, max_examples=10)
@given(systems_of_pes(), st.data())
def test_of_systems(system: Pair, data: st.DataObject) -> None:
    check(system, data, most=2)
