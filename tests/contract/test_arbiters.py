"""One contract for arbiters in C and in Python: the rule of the tree, out of the tree, gives the same run."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kernbench import Arbiter, InputError, Machine, load_config, load_program, simulate
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace import open_trace
from kernbench.trace.validate import validate
from tests.contract import arbiters
from tests.contract.engines import Script
from tests.contract.runs import load, machine, outcome, program, scripts
from tests.strategies import systems
from tests.systems_of_pes import systems_of_pes

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
Make = Callable[[], Any]


def makers() -> list[Make]:
    """The arbiter in Python, and in C where there is a compiler."""
    module = arbiters.in_c()
    return [arbiters.in_python(), *([] if module is None else [module.round_robin])]


def in_tree(described: dict[str, Any]) -> Any:
    at = "pe.spm.arbiter" if "pe" in described else "spm.arbiter"
    return load_config(described, [f"{at}=round_robin"])


def small(described: dict[str, Any]) -> bool:
    """What the C arbiter of the page has room for."""
    return bool(described["spm"]["num_banks"] <= 256)


@settings(RELAXED, max_examples=60)
@given(systems(), st.data())
def test_the_rule_is_the_same_out_of_the_tree(system: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
    """Stepped, and cut into pieces by snapshots."""
    described, queue = system
    config, parsed = in_tree(described), load_program(queue)
    want = outcome_of(Machine(config, parsed))
    for make in makers():
        assert outcome_of(Machine(config, parsed, arbiter=make())) == want
        mixed = Machine(config, parsed, arbiter=make())
        mixed.step(data.draw(st.integers(1, max(1, want["cycles"]))))
        fresh = Machine(config, parsed, arbiter=make())
        fresh.restore(mixed.snapshot())
        assert fresh.snapshot() == mixed.snapshot()
        assert outcome_of(fresh) == want


def outcome_of(run: Machine) -> dict[str, Any]:
    run.run()
    return outcome(run)


@settings(RELAXED, max_examples=12)
@given(systems_of_pes())
def test_the_rule_is_the_same_on_systems(system: tuple[dict[str, Any], dict[str, Any]]) -> None:
    described, queue = system
    config, parsed = in_tree(described), load_program(queue)
    want = outcome_of(Machine(config, parsed))
    assert outcome_of(Machine(config, parsed, arbiter=arbiters.in_python()())) == want


@settings(RELAXED, max_examples=25)
@given(scripts(), st.sampled_from([{"ports": 1}, {"ports": 2}, {"read_ports": 1, "write_ports": 1}]))
def test_requests_of_components_are_among_the_clients(actions: list[Any], ports: dict[str, int]) -> None:
    spm = {"num_banks": 16, "bank_width_bytes": 16, "bank_size_bytes": 1024, **ports}
    config = in_tree(machine(spm=spm))
    queue = load_program(program(load(), load(dram_addr=4096, num_elements=2000)))

    def run(arbiter: Any) -> dict[str, Any]:
        return outcome_of(Machine(config, queue, {"ve0": Script(actions, 9), "more": Script(actions[:3], 9)}, arbiter=arbiter))

    want = run(None)
    assert all(run(make()) == want for make in makers())


CROWDED = machine(spm={"num_banks": 2, "bank_width_bytes": 16, "bank_size_bytes": 4096})
TILES = program(*(load(dram_addr=4096 * k, num_elements=512) for k in range(4)))


class Wrong(Arbiter):
    """Does one thing wrong in cycle 40 or behind."""

    def __init__(self, what: Callable[[Any, Any], Any]) -> None:
        self.what = what

    def arbitrate(self, scratchpad: Any, now: int, requests: Any) -> Any:
        return self.what(scratchpad, requests) if now >= 40 else [0] * len(requests)


def fails(scratchpad: Any, requests: Any) -> Any:
    raise RuntimeError("no idea")


MISTAKES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "unasked": (
        lambda pad, asked: [~(r.reads | r.writes) & 3 for r in asked],
        "it grants bank 1 of scratchpad 0 to client 0, which does not ask for it",
    ),
    "too many": (
        lambda pad, asked: [r.reads | r.writes for r in asked],
        "it grants bank 0 of scratchpad 0 more often than it has ports (1)",
    ),
    "too few masks": (lambda pad, asked: [], "Wrong.arbitrate returned []: it must be a mask of banks for each of"),
    "beyond": (lambda pad, asked: [1 << 64 for _ in asked], "the scratchpad has 2 banks"),
    "raised": (fails, "RuntimeError: no idea"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_the_run(name: str) -> None:
    what, said = MISTAKES[name]
    run = Machine(load_config(CROWDED), load_program(TILES), arbiter=Wrong(what))
    sink = io.BytesIO()
    tracing = run.trace(sink, TraceOptions(level="full"))
    run.run()
    tracing.close()
    failure = run.failure()
    assert failure is not None and run.status == "failed"
    assert failure["code"] == "COMPONENT" and failure["component"] == "spm.arbiter"
    assert f"cycle {failure['cycle']}: arbiter tests.contract.test_arbiters:Wrong failed: " in failure["message"]
    assert said in failure["message"] and run.cycle == failure["cycle"] + 1
    errors = [event for line in sink.getvalue().splitlines() if (event := json.loads(line))["event_type"] == "ERROR"]
    assert [(event["component"], event["msg"]) for event in errors] == [("spm.arbiter", failure["message"])]


def test_a_trace_of_such_a_run_is_valid(tmp_path: Path) -> None:
    run = Machine(load_config(CROWDED), load_program(TILES), arbiter=arbiters.in_python()())
    with open(tmp_path / "t.jsonl", "wb") as sink:
        tracing = run.trace(sink, TraceOptions(level="full"))
        run.run()
        tracing.close()
    assert run.status == "done" and validate(open_trace(tmp_path / "t.jsonl")).violations == ()


def test_an_arbiter_may_grant_less_than_there_is() -> None:
    """One request a cycle; the run takes longer, and ends."""

    class One(Arbiter):
        def arbitrate(self, scratchpad: Any, now: int, requests: Any) -> list[int]:
            return [requests[0].reads | requests[0].writes] + [0] * (len(requests) - 1)

    wide = {"channels": 2, "bus_width_bytes": 64, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 64}
    config = load_config({**CROWDED, "dram": wide})
    slow, fast = simulate(load_program(TILES), config, arbiter=One()), simulate(load_program(TILES), config)
    assert slow.status == fast.status == "done" and slow.cycles > fast.cycles


def test_what_is_no_arbiter_is_refused() -> None:
    config, queue = load_config(CROWDED), load_program(TILES)
    with pytest.raises(InputError, match="is not an arbiter: it must be an object of a class derived from Arbiter"):
        Machine(config, queue, arbiter=3)
    used = arbiters.in_python()()
    Machine(config, queue, arbiter=used)
    with pytest.raises(InputError, match="this RoundRobin is in a machine already: make one for each"):
        Machine(config, queue, arbiter=used)


class Unsaved(Arbiter):
    """Has no snapshot."""

    def arbitrate(self, scratchpad: Any, now: int, requests: Any) -> list[int]:
        return [0] * len(requests)


def test_without_a_snapshot_nothing_is_saved() -> None:
    run = Machine(load_config(CROWDED), load_program(TILES), arbiter=Unsaved())
    with pytest.raises(InputError, match="arbiter Unsaved has no snapshot: a run with it cannot be saved"):
        run.snapshot()


def test_a_checkpoint_is_taken_up_by_running_again(tmp_path: Path) -> None:
    config, queue, make = load_config(CROWDED), load_program(TILES), arbiters.in_python()
    whole, saved, taken = (Machine(config, queue, arbiter=make()) for _ in range(3))
    saved.step(100)
    saved.save(tmp_path / "run.ckpt")
    taken.load(tmp_path / "run.ckpt")
    assert taken.cycle == 100 and outcome_of(taken) == outcome_of(whole)
    with pytest.raises(InputError, match="of a machine with other components"):
        Machine(config, queue).load(tmp_path / "run.ckpt")


def test_a_machine_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fair_named.py").write_text(arbiters.text_of("fair.py") + "\nnothing = 3\n", encoding="utf-8")
    for at, described in (("spm", CROWDED), ("pe.spm", {"schema": "kernbench/system/1"})):
        named = {f"{at}.arbiter": "fair_named:RoundRobin"}
        config = load_config(described, named, allow_code=[tmp_path])
        assert config.digest() != load_config(described).digest()
        queue = load_program(TILES) if at == "spm" else load_program(program())
        assert type(Machine(config, queue).arbiter).__name__ == "RoundRobin"
        with pytest.raises(InputError, match=r"arbiter = \"fair_named:RoundRobin\", but .*allow"):
            Machine(load_config(described, named), queue)
    with pytest.raises(InputError, match=r"\"fair_named:nothing\", but fair_named has no class or function nothing"):
        Machine(load_config(CROWDED, ["spm.arbiter=fair_named:nothing"], allow_code=[tmp_path]), load_program(TILES))
