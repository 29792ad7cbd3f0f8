"""Pipelines of stages: when batches pass them, what each stage has, and copies of the model beside each other."""

from __future__ import annotations

import errno
import io
import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.serving import (
    Arrivals,
    Deployment,
    EngineOptions,
    Group,
    MachineStep,
    Request,
    Scenario,
    Scheduler,
    State,
    StepBatch,
    StepTimer,
    Workload,
    batching,
    fixed_step,
    machine_step,
    simulate,
)
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.models.files import load_model
from kernbench.workloads.serving.step_trace import Bottlenecks, StepTrace

MS = 1_000_000


class Stages(StepTimer):
    """Each stage takes as long for every batch."""

    def __init__(self, stages: Sequence[tuple[int, int]], host: int = 0) -> None:
        self._stages = [(stage * MS, hand_off * MS) for stage, hand_off in stages]
        self._host = host * MS

    def device_ns(self, batch: StepBatch) -> int:
        return sum(stage + hand_off for stage, hand_off in self._stages)

    def stages_ns(self, batch: StepBatch) -> Sequence[tuple[int, int]]:
        return self._stages

    def host_ns(self, batch: StepBatch) -> int:
        return self._host


def served(stages: Sequence[tuple[int, int]], requests: list[Request], host: int = 0, **given: Any) -> Any:
    options = EngineOptions(num_gpu_blocks=100, max_model_len=400, pipeline_parallel_size=len(stages), **given)
    return simulate(requests, batching(options), Stages(stages, host))


def test_batches_follow_each_other_through_the_stages() -> None:
    """Two prompts of 100 tokens, one a batch. Stages take 3 and 5 ms, the hand-off 1 ms. The second batch starts when the
    first has left the first stage, and waits for the second stage; then each has its next token when its batch comes round."""
    requests = [Request(i, arrival_ns=0, prompt=100, output=2) for i in range(2)]
    result = served([(3, 1), (5, 0)], requests, max_num_seqs=1 + 1, max_num_batched_tokens=100)
    assert [one.first_token_ns for one in requests] == [9 * MS, 14 * MS]
    assert [one.last_token_ns for one in requests] == [19 * MS, 24 * MS]  # 9 + 3 + 1, but the stage is free at 14
    assert result.end_ns == 24 * MS and result.record.steps == 4
    line = result.record.timeline.intervals
    assert sum(one.busy_ns for one in line) == (9 + 14 + 10 + 10) * MS // 2


def test_a_hand_off_has_its_way_to_itself() -> None:
    """Both stages take 1 ms and the hand-off 10 ms: the second batch waits for the way, and the stages are free meanwhile."""
    requests = [Request(i, arrival_ns=0, prompt=100, output=1) for i in range(2)]
    served([(1, 10), (1, 0)], requests, max_num_seqs=2, max_num_batched_tokens=100)
    assert [one.last_token_ns for one in requests] == [12 * MS, 22 * MS]


def test_the_host_makes_one_batch_at_a_time() -> None:
    requests = [Request(i, arrival_ns=0, prompt=100, output=1) for i in range(2)]
    served([(1, 0), (1, 0)], requests, host=4, max_num_seqs=2, max_num_batched_tokens=100)
    assert [one.last_token_ns for one in requests] == [6 * MS, 10 * MS]


def test_a_request_that_comes_while_all_batches_run_waits_for_the_oldest() -> None:
    """As in vLLM, whose loop waits for the oldest batch where it found nothing more to schedule."""
    first, late = Request(0, arrival_ns=0, prompt=100, output=1), Request(1, arrival_ns=2 * MS, prompt=8, output=1)
    served([(5, 0), (5, 0)], [first, late])
    assert (late.scheduled_ns, late.last_token_ns) == (10 * MS, 20 * MS)


def test_chunks_of_a_prompt_are_in_several_batches() -> None:
    """Four chunks of two stages of 1 ms: the last ends after five, not after eight."""
    request = Request(0, arrival_ns=0, prompt=400 - 1, output=1)
    served([(1, 0), (1, 0)], [request], max_num_seqs=2, max_num_batched_tokens=100)
    assert request.last_token_ns == 5 * MS


def test_the_parts_of_latencies_add_up() -> None:
    requests = [Request(i, arrival_ns=i * MS, prompt=60 + i, output=12) for i in range(30)]
    result = served([(2, 1), (4, 0), (3, 0)], requests, host=1, max_num_seqs=7, max_num_batched_tokens=90)
    why = result.why()
    for name, metric in (("ttft", "ttft"), ("tpot", "itl")):
        parts = {part: ms for part, ms in why[name].items() if part.endswith("_ms")}
        assert all(ms >= 0 for ms in parts.values())
        assert sum(parts.values()) == pytest.approx(result.summary(metric).mean, abs=1e-6)
    assert why["tpot"]["pipeline_ms"] > 0 and why["ttft"]["sequence_slots_ms"] > 0


def test_the_trace_has_a_track_for_each_stage() -> None:
    out = io.BytesIO()
    options = EngineOptions(num_gpu_blocks=100, max_model_len=400, pipeline_parallel_size=2, max_num_batched_tokens=256)
    trace = StepTrace(out)
    simulate([Request(i, arrival_ns=0, prompt=200, output=2) for i in range(2)], batching(options), Stages([(3, 1), (5, 0)]),
             trace=trace)  # fmt: skip
    trace.close()
    spans: dict[int, list[tuple[float, float]]] = {}
    for event in json.loads(out.getvalue())["traceEvents"]:
        if event["ph"] == "X":
            spans.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert sorted(spans) == [0, 1] and spans[0][:2] == [(0, 3000), (3000, 6000)]
    for track in spans.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(track))


def test_steps_go_on_without_a_trace_that_has_no_room() -> None:
    class Full(io.BytesIO):
        room = 200

        def write(self, data: Any) -> int:
            if self.tell() + len(data) > self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    out = Full()
    trace = StepTrace(out)
    requests = [Request(i, arrival_ns=0, prompt=200, output=9) for i in range(2)]
    options = EngineOptions(num_gpu_blocks=100, max_model_len=400)
    simulate(requests, batching(options), Stages([(3, 1)]), trace=trace)
    assert [one.generated for one in requests] == [9, 9] and trace.steps >= 9
    out.room = 1 << 20
    with pytest.raises(OSError, match="No space left"):
        trace.close()
    assert len(out.getvalue()) <= 200  # and no event after a gap


def test_the_bottleneck_of_steps_of_about_one_size_is_found_once() -> None:
    class Step(MachineStep):
        edges = ([1, 2], [1, 2], [1, 2])
        asked: ClassVar[list[Any]] = []

        def device_ns(self, sequences: Sequence[Sequences]) -> float:
            return 1.0

        def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
            self.asked.append(tuple(sequences))
            return {"DRAM bandwidth": 0.75, "links": 0.5}

        def host_ns(self, sequences: int, *, prompt: bool) -> int:
            return 0

        def weight_bytes(self) -> int:
            return 0

        token_bytes = memory_bytes = content = weight_bytes

    out = io.BytesIO()
    trace = StepTrace(out, Bottlenecks(Step()))
    options = EngineOptions(num_gpu_blocks=100, max_model_len=400, async_scheduling=False)
    requests = [Request(i, arrival_ns=0, prompt=100, output=40) for i in range(3)]
    simulate(requests, batching(options), fixed_step(MS), trace=trace)
    trace.close()
    args = [event["args"] for event in json.loads(out.getvalue())["traceEvents"] if event["ph"] == "X"]
    assert len(args) == 40 and all((one["limit"], one["limit_share"]) == ("DRAM bandwidth", 0.75) for one in args)
    assert Step.asked == [(Sequences(64, 0, 4),), (Sequences(1, 64, 4),), (Sequences(1, 256, 4),)]


def test_a_request_that_gives_its_own_blocks_away_does_not_stop_the_engine() -> None:
    """By priority the first running request is the victim: the step is empty, and the next one has its blocks."""
    requests = [Request(0, arrival_ns=0, prompt=30, output=10, priority=2), Request(1, arrival_ns=0, prompt=30, output=10)]
    for stages in (1, 2):
        for one in requests:
            one.__init__(one.id, arrival_ns=0, prompt=30, output=10, priority=one.priority)  # type: ignore[misc]
        options = EngineOptions(
            num_gpu_blocks=6, max_model_len=80, scheduling_policy="priority", async_scheduling=False, max_num_seqs=2,
            enable_prefix_caching=False, pipeline_parallel_size=stages,
        )  # fmt: skip
        simulate(requests, batching(options), fixed_step(MS))
        assert [one.state for one in requests] == [State.FINISHED] * 2 and requests[0].preemptions


TINY = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 256, "head_dim": 16}  # fmt: skip


@pytest.fixture
def tiny(tmp_path: Any) -> Any:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY), encoding="ascii")
    return load_model(str(path))


def test_stages_of_a_system_take_together_what_the_whole_takes(tiny: Any) -> None:
    config = load_config("single_cube")
    batch = [Sequences(96), Sequences(1, 200, 3)]
    whole, piped = (machine_step(tiny, config, tp=2, pp=pp) for pp in (1, 4))
    assert len(piped.stages) == 4 and sum(one.layers or 0 for one in piped.stages) == 4
    times = [one.device_ns(batch) for one in piped.stages]
    assert sum(times) == pytest.approx(whole.device_ns(batch), rel=0.02)
    handed = [one.hand_off_ns(99) for one in piped.stages]
    assert handed[-1] == 0 and min(handed[:-1]) > 0 and piped.device_ns(batch) == sum(times) + sum(handed)
    assert handed[0] < piped.stages[0].hand_off_ns(990)
    assert piped.token_bytes() == whole.token_bytes() and piped.weight_bytes() < whole.weight_bytes()
    middle = [one.content() for one in piped.stages[1:3]]
    assert middle[0] == {**middle[1], "places": middle[0]["places"]}  # equal but for the PEs


def test_stages_of_chips_take_together_what_the_whole_takes() -> None:
    model, config = load_model("llama3-8b"), load_config("rtx4090")
    batch = [Sequences(96), Sequences(1, 200, 3)]
    whole, piped = (machine_step(model, config, pp=pp) for pp in (1, 2))
    assert sum(one.device_ns(batch) for one in piped.stages) == pytest.approx(whole.device_ns(batch), rel=1e-9)
    assert sum(one.weight_bytes() for one in piped.stages) == whole.weight_bytes() == 2 * model.parameters
    assert sum(one.token_bytes() for one in piped.stages) == whole.token_bytes()
    contents = [one.content() for one in machine_step(model, config, pp=8).stages]
    assert len({repr(one) for one in contents}) < 8 and contents[-1] not in contents[:-1]  # equal stages have one table
    link, chip = 2 * 4096 * 2048, config.chip  # type: ignore[union-attr]  # a chip
    assert chip is not None
    assert piped.stages[0].hand_off_ns(2048) > link / float(chip.links * chip.link_gb_s)


def scenario(
    model: Any, machine: str = "single_cube", rate: float = 5000.0, count: int = 6, output: int = 3, **given: Any
) -> Scenario:
    lengths = {"num_prompts": count, "random_input_len": 64, "random_output_len": output}
    load = Workload(**lengths, arrivals=Arrivals(request_rate=rate))  # type: ignore[arg-type]  # counts
    fixed = {"model": model, "machine": load_config(machine), "workload": load, "sample": 2, "max_model_len": 256}
    return Scenario(**{**fixed, **given})


def test_the_fullest_stage_limits_the_kv_cache() -> None:
    model = load_model("llama3-8b")
    made = scenario(model, "rtx4090", pp=3)
    step = made.step()
    room = [0.9 * one.memory_bytes() - one.weight_bytes() for one in step.stages]
    fit = [int(left // (16 * one.token_bytes())) for left, one in zip(room, step.stages, strict=True)]
    assert made.engine_options(step).num_gpu_blocks == min(fit) < max(fit)


def test_a_pipeline_of_a_system_serves_with_its_table_and_exactly(tiny: Any, tmp_path: Any) -> None:
    exact = scenario(tiny, tp=2, pp=2, exact=True).run().result.summary("e2el")
    ends = []
    for _ in range(2):
        done = scenario(tiny, tp=2, pp=2, tables=tmp_path).run()
        assert done.result.count(State.FINISHED) == 6
        ends.append(done.result.summary("e2el"))
    assert ends[0] == ends[1] and ends[0].mean == pytest.approx(exact.mean, rel=0.1)  # type: ignore[union-attr]
    table = done.to_dict()["table"]
    assert table["simulated"] == 0 and table["error"]["steps"] == 4 and table["error"]["worst"] < 0.3


def test_stages_and_hand_offs_have_their_energy(tiny: Any) -> None:
    made = scenario(tiny, count=2, output=2, tp=2, pp=2, energy=True, sample=0)
    done = made.run()
    plain = done.to_dict()["energy"]
    assert sum(row["joules"] for row in done.result.rows()) == pytest.approx(
        plain["joules"] - plain["by_part_j"]["idle"], rel=1e-6
    )
    batch = [Sequences(64)]
    whole, piped = (machine_step(tiny, made.machine, tp=2, pp=pp).energy_pj(batch) for pp in (1, 2))
    assert piped["mac"] == whole["mac"] and piped["dram"] > whole["dram"]  # hand-offs go through it


def test_more_stages_serve_more_where_the_device_is_the_limit(tiny: Any) -> None:
    """Prompts alone, all at once: two stages work on two batches."""
    ends = []
    for pp in (1, 2):
        made = scenario(tiny, rate=math.inf, count=40, output=1, pp=pp, engine={"max_num_batched_tokens": 256}, sample=0)
        ends.append(Deployment(scenario=made).run().result.end_ns)
    assert ends[1] < 0.65 * ends[0]


def test_copies_of_the_model_are_engines_of_one_machine(tiny: Any) -> None:
    done = Deployment(scenario=scenario(tiny, tp=2, pp=2, dp=2), routing="least_outstanding").run()
    assert done.engines == 2 and done.result.count(State.FINISHED) == 6
    fleet = Deployment(scenario=scenario(tiny), groups=(
        Group(scenario(tiny, tp=2, pp=2), 1, "prefill"), Group(scenario(tiny, tp=4, dp=2, host_link_gb_s=8.0), 2, "decode"),
    ), kv_link_gb_s=50.0)  # fmt: skip
    assert (fleet.engines, fleet.machines) == (5, 3)
    row = fleet.run().fleet
    assert row is not None and [(one["tp"], one["pp"], one["dp"], len(one["served"])) for one in row] == [
        (2, 2, 1, 1), (4, 1, 2, 4),
    ]  # fmt: skip
    chips = Deployment(scenario=scenario(load_model("llama3-8b"), "rtx4090", tp=2, pp=2, dp=3), replicas=2)
    assert (chips.engines, chips.machines) == (6, 24)


@pytest.mark.parametrize(
    ("machine", "given", "told"),
    [
        ("npu_server", {"pp": 2}, "has 1 PE, and 2 are needed"),
        ("single_cube", {"pp": 5}, "runs 4 layers"),
        ("single_cube", {"tp": 2, "pp": 4, "dp": 2}, "has 8 PEs, and 16 are needed"),
        ("single_cube", {"pp": 0}, "integer of at least 1"),
        ("single_cube", {"dp": 0}, "integer of at least 1"),
    ],
)
def test_layouts_that_cannot_be(tiny: Any, machine: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        scenario(tiny, machine, **given).step()


def test_a_scheduler_of_ones_own_serves_a_pipeline() -> None:
    """Three methods and a number of batches: with two under way, both stages work."""

    class Halves(Scheduler):
        batches_in_flight = 2

        def __init__(self) -> None:
            self.requests: list[Request] = []

        def add(self, request: Request) -> None:
            self.requests.append(request)

        def schedule(self, now_ns: int) -> StepBatch:
            free = [one for one in self.requests if one.computed < one.tokens][:2]
            return StepBatch([(one, one.tokens - one.computed) for one in free])

        def finish(self, request: Request) -> None:
            self.requests.remove(request)

    requests = [Request(i, arrival_ns=0, prompt=8, output=3) for i in range(4)]
    result = simulate(requests, Halves(), Stages([(2, 0), (2, 0)]))
    assert result.end_ns == 14 * MS  # six batches of two, one every 2 ms, and the second stage of the last
