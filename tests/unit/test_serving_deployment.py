"""Scenarios on several engines: capacity, machines, links and worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.serving import Arrivals, Deployment, MachineStep, Scenario, State, Workload, parse_slo
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.models.files import load_model

CHIP = {"cost.watts": "450", "cost.usd_per_hour": "0.5"}


class Steps(MachineStep):
    """Each takes 10 ms."""

    edges = ([1, 4096], [1, 512], [0, 8192])

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return 10e6

    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        return 0

    def weight_bytes(self) -> int:
        return 0

    def token_bytes(self) -> int:
        return 1000

    def memory_bytes(self) -> int:
        return 1 << 32

    def content(self) -> Any:
        return "steps"


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(Scenario, "step", lambda self: Steps())
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))


def scenario(machine: str = "rtx4090", **given: Any) -> Scenario:
    config = load_config(machine, given.pop("overrides", {}))
    load = Workload(num_prompts=60, random_input_len=64, random_output_len=4, arrivals=Arrivals(request_rate=10))
    engine = {"max_num_seqs": 2, "async_scheduling": False}
    return Scenario(
        model=load_model("llama3-8b"), machine=config, workload=load, engine=engine, num_gpu_blocks=200, max_model_len=1024,
        sample=0, **given,
    )  # fmt: skip


def test_twice_the_engines_carry_twice_the_rate() -> None:
    """An engine ends two requests of four steps every 40 ms: 50 requests/s."""
    slo = parse_slo("p95 ttft<100ms")
    one, two = (Deployment(scenario=scenario(), replicas=count).capacity(slo, seeds=(1, 2), duration_s=1) for count in (1, 2))
    assert 25 < one.rate < 70
    assert 1.5 * one.rate < two.rate < 3 * one.rate  # more than twice: bursts share both
    assert one.bound == "p95 ttft < 100 ms"


def test_high_rates_get_more_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that requests arrive for as long as is asked."""
    seen: list[int] = []
    requests = Workload.requests
    monkeypatch.setattr(Workload, "requests", lambda self: seen.append(self.count or 0) or requests(self))
    Deployment(scenario=scenario()).capacity(parse_slo("p95 ttft<100ms"), seeds=(1,), duration_s=2, tolerance=0.5)
    assert min(seen) == 60 and max(seen) >= 100


def test_a_run_serves_the_workload_of_the_scenario() -> None:
    done = Deployment(scenario=scenario(), replicas=2, prefill=1, routing="least_outstanding").run()
    assert done.result.count(State.FINISHED) == 60
    alone = Deployment(scenario=scenario()).run()
    assert alone.result.to_dict() == scenario().run().result.to_dict()


def test_a_chip_with_tensor_parallelism_is_several_machines() -> None:
    deployment = Deployment(scenario=scenario(overrides=CHIP, tp=2), replicas=3, prefill=1)
    assert (deployment.engines, deployment.machines) == (4, 8)
    assert deployment.worth(36.0) == {
        "requests_per_s_per_usd_per_hour": 36 / (0.5 * 8),
        "requests_per_s_per_watt": 36 / (450 * 8),
    }
    assert Deployment(scenario=scenario("npu_server", tp=1), replicas=3).machines == 3


def test_what_a_machine_costs_is_not_invented() -> None:
    assert set(Deployment(scenario=scenario()).worth(10.0).values()) == {None}


def test_the_link_is_that_of_the_chip_or_given() -> None:
    found = Deployment(scenario=scenario(), prefill=1).link(Steps())
    chip = scenario().machine.chip  # type: ignore[union-attr]
    assert found is not None and chip is not None
    assert (found.token_bytes, found.bytes_per_ns) == (1000, float(chip.links * chip.link_gb_s))
    assert found.latency_ns == chip.link_latency_ns
    given = Deployment(scenario=scenario("npu_server"), prefill=1, kv_link_gb_s=12.5).link(Steps())
    assert given is not None and given.bytes_per_ns == 12.5
    with pytest.raises(InputError, match="kv-link-gb-s"):
        Deployment(scenario=scenario("npu_server"), prefill=1).link(Steps())
    host = scenario("npu_server", host_link_gb_s=8.0, tp=2)
    assert Deployment(scenario=host, prefill=1).link(Steps()).bytes_per_ns == 16  # type: ignore[union-attr]
    assert Deployment(scenario=host, prefill=1, kv_link_gb_s=3).link(Steps()).bytes_per_ns == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"replicas": 0}, "at least 1"),
        ({"prefill": -1}, "at least 0"),
        ({"routing": "roundrobin"}, "round_robin"),
        ({"kv_link_gb_s": 0.0}, "above 0"),
    ],
)
def test_deployments_that_cannot_be(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Deployment(scenario=scenario(), **given)


def test_tokens_cost_by_the_hour_and_the_supply() -> None:
    """Two machines of 0.5 $/h and 450 W give so many tokens a second together."""
    done = Deployment(scenario=scenario(overrides=CHIP), replicas=2).run()
    cost, rates = done.to_dict()["cost"], done.result.rates(done.result.steady)
    assert cost["usd_per_million_output_tokens"] == pytest.approx(2 * 0.5 / 3600 / rates["output_tokens_per_s"] * 1e6)
    assert cost["supply_joules_per_million_tokens"] == pytest.approx(2 * 450 / rates["total_tokens_per_s"] * 1e6)
    assert Deployment(scenario=scenario()).run().to_dict()["cost"] is None


def test_the_capacity_states_what_tokens_cost() -> None:
    """Requests have four tokens of output, so a million of them are 250,000 requests."""
    deployment = Deployment(scenario=scenario(overrides=CHIP))
    plain = deployment.to_dict(deployment.capacity(parse_slo("p95 ttft<100ms"), seeds=(1, 2), duration_s=1))
    assert plain["usd_per_million_output_tokens"] == pytest.approx(0.5 / 3600 / (4 * plain["rate"]) * 1e6)
    assert plain["joules_per_million_output_tokens"] is None


def test_energy_is_that_of_the_steps_and_of_the_idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes 3 J of DRAM and 10 ms of 2 W; between steps two idle machines draw 2 W each."""

    class Costly(Steps):
        static_mw = 2000.0

        def energy_pj(self, sequences: Sequence[Sequences]) -> dict[str, float]:
            return {"dram": 3e12, "static": 2000.0 * 10e6}

    monkeypatch.setattr(Scenario, "step", lambda self: Costly())
    done = Deployment(scenario=scenario(energy=True), replicas=2).run()
    energy, steps = done.to_dict()["energy"], done.result.record.steps
    assert energy["by_part_j"]["dram"] == pytest.approx(3 * steps)
    idle_s = 2 * (done.result.end_ns - done.result.whole.start_ns) / 1e9 - steps * 10e-3
    assert energy["by_part_j"]["idle"] == pytest.approx(2 * idle_s)
    assert energy["joules"] == pytest.approx(sum(energy["by_part_j"].values()))
    assert energy["joules_per_million_output_tokens"] == pytest.approx(energy["joules"] / (60 * 4) * 1e6)
    assert sum(done.to_dict()["timeline"]["joules"]) == pytest.approx(3.02 * steps)


def test_energy_where_nothing_says_it() -> None:
    with pytest.raises(InputError, match="--energy"):
        Deployment(scenario=scenario(energy=True)).run()


def test_the_energy_of_a_table_is_kept_beside_its_times(tmp_path: Any) -> None:
    from kernbench.serving import TableStore

    store = TableStore(tmp_path, "content")
    store.put("1 0 0", 5.0)
    store.save()
    again = TableStore(tmp_path, "content")
    again.put_energy("1 0 0", {"dram": 7.0})
    again.save()
    read = TableStore(tmp_path, "content")
    assert read.get("1 0 0") == 5.0 and read.energy_pj("1 0 0") == {"dram": 7.0} and read.energy_pj("2 0 0") is None


@pytest.mark.parametrize("machine", ["npu_server", "a100"])
def test_times_of_steps_are_not_those_of_other_code(machine: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of how models become programs changes times, and the package's version may be the same."""
    from kernbench.serving import TableStore
    from kernbench.workloads.serving import machine_step

    def path() -> Any:
        step = machine_step.machine_step(load_model("llama3-8b"), load_config(machine))
        return TableStore(tmp_path, step.content()).path

    before = path()
    assert path() == before
    monkeypatch.setattr(machine_step, "package_digest", lambda *modules: f"other {modules}")
    assert path() != before
