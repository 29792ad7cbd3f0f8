"""Fleets of different engines: files, links and costs of their groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.serving import Arrivals, Deployment, Group, MachineStep, Scenario, State, Workload
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.models.files import load_model
from kernbench.workloads.serving.deployment import machine_link
from kernbench.workloads.serving.fleet_file import fleet_json_schema, load_fleet
from tests.schemas import validator_of

FILE = """\
schema: kernbench/fleet/1
groups:
- {config: rtx4090, count: 2, set: {cost.usd_per_hour: 0.5, cost.watts: 450}, max_num_seqs: 4}
- {config: a100, tp: 2, set: {cost.usd_per_hour: 2, cost.watts: 400}, gpu_memory_utilization: 0.8}
"""


class Steps(MachineStep):
    """Each takes 10 ms, and on an A100 2 ms."""

    edges = ([1, 4096], [1, 512], [0, 8192])

    def __init__(self, scenario: Scenario) -> None:
        self.fast = "a100" in scenario.machine.source
        self.kv_bits = scenario.kv or 16

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return 2e6 if self.fast else 10e6

    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        return 0

    def weight_bytes(self) -> int:
        return 0

    def token_bytes(self) -> int:
        return 500 if self.fast else 1000

    def memory_bytes(self) -> int:
        return 1 << 32

    def content(self) -> Any:
        return self.fast


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Scenario, "step", lambda self: Steps(self))
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))


def base() -> Scenario:
    load = Workload(num_prompts=120, random_input_len=64, random_output_len=4, arrivals=Arrivals(request_rate=300))
    return Scenario(
        model=load_model("llama3-8b"), machine=load_config("npu_server"), workload=load, engine={"max_num_seqs": 8},
        num_gpu_blocks=200, max_model_len=1024, sample=0,
    )  # fmt: skip


def fleet(tmp_path: Path, text: str = FILE) -> tuple[Group, ...]:
    (tmp_path / "fleet.yaml").write_text(text, encoding="utf-8")
    return load_fleet(tmp_path / "fleet.yaml", base())


def test_groups_have_their_machines_and_options(tmp_path: Path) -> None:
    slow, fast = fleet(tmp_path)
    assert (slow.count, slow.role, slow.scenario.machine.source, slow.scenario.tp) == (2, "both", "rtx4090.yaml", 1)
    assert slow.scenario.engine == {"max_num_seqs": 4} and fast.scenario.engine == {"max_num_seqs": 8}
    assert (fast.count, fast.scenario.tp, fast.scenario.gpu_memory_utilization) == (1, 2, 0.8)


def test_a_fleet_serves_with_all_groups_and_costs_what_they_cost(tmp_path: Path) -> None:
    deployment = Deployment(scenario=base(), groups=fleet(tmp_path), routing="least_outstanding")
    assert (deployment.engines, deployment.machines) == (3, 4)
    cost = deployment.cost
    assert cost is not None and (cost.usd_per_hour, cost.watts) == (2 * 0.5 + 2 * 2, 2 * 450 + 2 * 400)
    done = deployment.run()
    plain = done.to_dict()
    assert done.result.count(State.FINISHED) == 120
    slow, fast = plain["fleet"]
    assert sum(slow["served"]) + sum(fast["served"]) == 120 and fast["served"][0] > max(slow["served"])
    assert plain["machine"] == "rtx4090.yaml, a100.yaml"
    rates = done.result.rates(done.result.steady)
    assert plain["cost"]["usd_per_million_output_tokens"] == pytest.approx(5 / 3600 / rates["output_tokens_per_s"] * 1e6)


def test_prefill_and_decode_on_different_chips(tmp_path: Path) -> None:
    """Links are those of the engines that prefill: 500 bytes of a token on each of two devices."""
    groups = fleet(tmp_path, "groups:\n- {config: a100, tp: 2, role: prefill}\n- {config: rtx4090, role: decode, count: 2}\n")
    deployment = Deployment(scenario=base(), groups=groups)
    link = deployment.link(Steps(groups[0].scenario))
    rate, latency = machine_link(groups[0].scenario.machine, 2)
    assert link is not None and (link.token_bytes, link.bytes_per_ns, link.latency_ns) == (1000, rate, latency)
    assert deployment.run().result.count(State.FINISHED) == 120
    fewer = replace(groups[0], scenario=replace(groups[0].scenario, kv=8))
    with pytest.raises(InputError, match="keys and values have 8 bits there, and 16"):
        Deployment(scenario=base(), groups=(fewer, *groups[1:])).run()


def test_groups_have_their_own_layouts(tmp_path: Path) -> None:
    """Prefill and decode of other stages, copies and devices: 3 and 2 x 4 chips, and 2 x 2 schedulers that decode."""
    text = "groups:\n- {config: a100, pp: 3, role: prefill}\n- {config: rtx4090, tp: 2, dp: 2, role: decode, count: 2}\n"
    deployment = Deployment(scenario=base(), groups=fleet(tmp_path, text))
    assert (deployment.engines, deployment.machines) == (5, 11)
    rows = deployment.run().fleet
    assert rows is not None and [(one["tp"], one["pp"], one["dp"], len(one["served"])) for one in rows] == [
        (1, 3, 1, 1), (2, 1, 2, 4),
    ]  # fmt: skip


def test_systems_send_keys_over_the_link_between_sips() -> None:
    machine = load_config("two_sips")
    link = machine.system.link
    rate = float(link.bytes_per_cycle * machine.freq_ghz), round(link.cycles / machine.freq_ghz)
    assert machine_link(machine, 4) == rate
    assert machine_link(load_config("npu_server"), 1) == (None, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "a mapping of keys"),
        ("groups: []", "at least one group"),
        ("groups: [{count: 1}]", "a group must have a machine"),
        ("groups: [{config: rtx4090, cuont: 2}]", "did you mean count"),
        ("groups: [{config: rtx4090, count: 0}]", "an integer from 1"),
        ("groups: [{config: rtx4090, count: true}]", "an integer from 1"),
        ("groups: [{config: rtx4090, role: some}]", "both, prefill, decode"),
        ("groups: [{config: rtx4090, gpu_memory_utilization: 1.5}]", "at most 1"),
        ("groups: [{config: rtx4090, set: 3}]", "keys with values"),
        ("groups: [{config: 3}]", "it must be text"),
        ("schema: kernbench/fleet/2\ngroups: [{config: rtx4090}]", "it must be kernbench/fleet/1"),
        ("group: [{config: rtx4090}]", "did you mean groups"),
    ],
)
def test_files_that_are_no_fleet(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told):
        fleet(tmp_path, text)


def test_the_schema_takes_what_is_read() -> None:
    validator = validator_of(fleet_json_schema)
    validator.validate({"groups": [{"config": "rtx4090", "count": 2, "set": {"dram.channels": 8}}]})
    for wrong in ({"groups": []}, {"groups": [{"count": 2}]}, {"groups": [{"config": "a", "cuont": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(wrong)


def test_groups_say_how_many_engines_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="groups say how many"):
        Deployment(scenario=base(), groups=fleet(tmp_path), replicas=2)
