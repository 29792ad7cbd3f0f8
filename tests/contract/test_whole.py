"""Machines without a queue: components submit to the engines of a whole system, over routes that are found on the way."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import JOB, NEVER, Component, InputError, Machine, Program, load_config, load_program
from kernbench.config import SystemConfig
from kernbench_core import EngineType
from tests.contract.replayed import replay
from tests.contract.runs import gemm, machine, program
from tests.strategies import systems
from tests.systems_of_pes import systems_of_pes

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
TWO_SIPS = "two_sips"
ALONE = ("KV_STORE_TILE",)  # a component's transfers have no order of their own


def check_replay(described: Any, queue: dict[str, Any], data: st.DataObject) -> None:
    config = load_config(described)
    run = Machine(config, load_program(queue))
    run.run()
    want = run.result()
    jobs = [entry for entry in want.entries if entry.end is not None and entry.opcode not in ("NOP", "BARRIER", "END")]
    if want.status != "done" or not jobs:
        return
    whole = isinstance(config, SystemConfig)
    skip, seed = data.draw(st.booleans(), label="skip"), data.draw(st.integers(0, 2**32 - 1), label="seed")
    again, part = replay(run, whole=whole, skip=skip, seed=seed)
    got = again.result()
    assert got.status == "done", got.failure
    assert {want.entries[k].id: time for k, time in part.times.items()} == {e.id: (e.start, e.end) for e in jobs}
    if want.cycles == got.cycles:  # control entries may end later
        ours = {name: counters for name, counters in got.counters.items() if name in want.counters}
        theirs = {name: c for name, c in want.counters.items() if name in ours}
        assert ours == theirs
        missing = [c for name, c in want.counters.items() if name not in ours]
        assert not any(c["busy"] for c in missing)  # channels that nobody used


def without(queue: dict[str, Any], opcodes: tuple[str, ...]) -> dict[str, Any]:
    """The program with a NOP in the place of entries of some opcodes."""
    kept = ("id", "deps_before", "deps_after")
    entries = [
        {"opcode": "NOP", **{k: v for k, v in e.items() if k in kept}} if e["opcode"] in opcodes else e for e in queue["cmdq"]
    ]
    return {**queue, "cmdq": entries}


@settings(RELAXED, max_examples=30)
@given(systems_of_pes(), st.data())
def test_jobs_of_a_component_are_those_of_the_queue_on_a_system(system: Any, data: st.DataObject) -> None:
    described, queue = system
    check_replay(described, without(queue, ALONE), data)


@settings(RELAXED, max_examples=30)
@given(systems(), st.data())
def test_jobs_of_a_component_are_those_of_the_queue_on_one_npu(system: Any, data: st.DataObject) -> None:
    described, queue = system
    check_replay(described, without(queue, ALONE), data)


@pytest.mark.parametrize("skip", [False, True])
def test_products_of_a_component_overlap_as_those_of_the_queue_do(skip: bool) -> None:
    array = {"timing": "systolic", "rows": 4, "cols": 6, "dataflow": "ws", "fill": "overlapped", "drain": "overlapped"}
    run = Machine(load_config(machine(te={"engines": 1, **array})), load_program(program(*[gemm(m=9, n=6, k=4)] * 3)))
    run.run()
    want = run.result()
    times = [(entry.start or 0, entry.end or 0) for entry in want.entries]
    assert times[1][0] < times[0][1]
    again, part = replay(run, whole=False, skip=skip)
    assert part.times == dict(enumerate(times))
    assert again.result().counters["te0"] == want.counters["te0"]


@pytest.mark.nightly
@settings(RELAXED, max_examples=1500)
@given(systems_of_pes() | systems(), st.data())
def test_jobs_of_a_component_are_those_of_the_queue_long(system: Any, data: st.DataObject) -> None:
    described, queue = system
    check_replay(described, without(queue, ALONE), data)


# By hand ----------------------------------------------------------------------------------------------------------


class Part(Component):
    """Does `script[cycle]` in that cycle, in one of them `act(self)`; writes down every notice with the job's start."""

    def __init__(self, script: dict[int, Any], **limits: int) -> None:
        super().__init__()
        for name, limit in limits.items():
            setattr(self, name, limit)
        self.script = script
        self.whole: Any = None
        self.log: list[tuple[int, int, int]] = []
        self.ids: list[int] = []

    def step(self, now: int) -> int:
        if now in self.script:
            self.script[now](self)
        return min((at for at in self.script if at > now), default=NEVER)

    def notify(self, notice: int, number: int, now: int) -> int:
        assert notice == JOB
        self.log.append((self.ids.index(number), self.started(number), now + 1))
        return NEVER

    def give(self, kind: int, engine: int, params: Any, regions: Any = ()) -> None:
        self.ids.append(self.submit(kind, engine, params, regions))


def on_two_sips(script: dict[int, Any], **limits: int) -> tuple[Machine, Part]:
    """A run of a part on the whole of two SIPs."""
    part = Part(script, **limits)
    part.whole = run = Machine(load_config(TWO_SIPS), Program("none"), {"part": part}, whole=True)
    run.run()
    return run, part


def load(part: Part, pe: int = 0, address: int = 0, **changed: int) -> None:
    """64 B of a PE's own slice into its scratchpad."""
    memory, route = part.whole.plan.reach.route_to(pe, address, False, 64)
    fields = {"channel": 0, "write": 0, "dram_addr": address, "row_bytes": 64, "stride": 64, "rows": 1}
    part.give(0, pe, tuple(({**fields, "memory": memory, "route": route} | changed).values()), ((0, 64, 1),))


def work(part: Part, jobs: int) -> None:
    """Jobs of 5 cycles for one VE."""
    for _ in range(jobs):
        part.give(EngineType.VE, 3, (0, 5, 0, 1))


def test_everything_of_a_system_is_there_and_what_was_not_used_is_not_in_the_result() -> None:
    run, part = on_two_sips({0: load})
    plan = run.plan
    assert len(plan.scratchpads) == 64 and len(plan.dma) == 64 + 4 and len(plan.machine["memories"]) == 64 + 8 + 1
    assert plan.whole and plan.reach is not None and plan.reach.pes[9] == "sip0.cube1.pe1"
    assert len(plan.resources) - plan.channels == sum(e.bytes_per_cycle is not None for e in plan.reach.places.topology.edges)
    counters = run.result().counters
    assert [name for name in counters if ".ch" in name] == ["sip0.cube0.hbm_ctrl.ch0"]
    assert counters["sip0.cube0.hbm_ctrl.ch0"]["bytes"] == counters["sip0.cube0.pe0.pe_dma"]["bytes"] == 64
    assert counters["sip1.cube3.pe7.pe_math"]["jobs"] == 0
    assert part.log == [(0, 0, run.cycle)]


def test_one_npu_is_whole_as_it_is() -> None:
    config = load_config({})
    assert Machine(config, Program("none"), whole=True).plan.resources == Machine(config, Program("none")).plan.resources
    assert Machine(config, Program("none"), whole=True).plan.reach is None


def test_nothing_to_do_ends_at_once() -> None:
    run = Machine(load_config(TWO_SIPS), Program("none"), whole=True)
    run.run()
    assert (run.status, run.cycle, run.result().entries) == ("done", 0, [])


def test_when_a_job_started() -> None:
    """Two jobs of 5 cycles for one VE: the second starts when the first has ended."""
    seen: list[Any] = []

    def ask(part: Part) -> None:
        seen.extend(part.started(number) for number in part.ids)

    def act(part: Part) -> None:
        work(part, 2)
        ask(part)

    _, part = on_two_sips({0: act, 4: ask, 8: ask})
    assert seen == [NEVER, NEVER, 0, NEVER, 0, 5]
    assert part.log == [(0, 0, 5), (1, 5, 10)]


def test_an_m_cpu_takes_a_launch_and_a_component_what_it_is_given() -> None:
    taken: list[Any] = []

    class Takes(Part):
        def accept(self, job: Any, now: int) -> int:
            taken.append((job.params, [tuple(region) for region in job.regions], now))
            self.complete(job.id)
            return NEVER

    def act(part: Part) -> None:
        part.give(EngineType.CPU, 5, (7, 0, 0, 1))
        part.give(EngineType.COMPONENT, 0, (1, 2, 3), ((4, 5, 0),))

    part = Takes({0: act})
    run = Machine(load_config(TWO_SIPS), Program("none"), {"part": part}, whole=True)
    run.run()
    assert part.log == [(1, 0, 1), (0, 0, 7)] and taken == [((1, 2, 3), [(4, 5, False)], 0)]
    assert run.result().counters["sip1.cube1.m_cpu"] == {
        "jobs": 1, "busy": 7, "idle": 0, "stalled": {"bank_conflict": 0}, "launches": 1
    }  # fmt: skip
    reach = run.plan.reach
    assert reach is not None
    launch = Machine(load_config(TWO_SIPS), load_program(program({"opcode": "LAUNCH", "node": "sip1.cube1.m_cpu"})))
    launch.run()
    assert launch.cycle == reach.launch_cycles("sip1.cube1.m_cpu")


def test_what_is_given_in_p7_is_issued_in_the_next_cycle() -> None:
    class Again(Part):
        def notify(self, notice: int, number: int, now: int) -> int:
            super().notify(notice, number, now)
            if len(self.ids) < 3:
                self.give(EngineType.VE, 0, (0, 2, 0, 1))
            return NEVER

    part = Again({0: lambda p: p.give(EngineType.VE, 0, (0, 2, 0, 1))}, jobs=1)
    run = Machine(load_config({}), Program("none"), {"part": part})
    run.run()
    assert part.log == [(0, 0, 2), (1, 2, 4), (2, 4, 6)]


def test_room_is_of_each_component_by_itself() -> None:
    run, part = on_two_sips({0: lambda p: work(p, 70)}, jobs=70)
    assert run.status == "done" and len(part.log) == 70
    run, part = on_two_sips({0: lambda p: work(p, 70)}, jobs=69)
    assert run.status == "failed" and "Part has as many open as it said" in run.result().failure["message"]  # type: ignore[index]


def test_a_job_without_operands_leaves_no_trace_in_the_scratchpad() -> None:
    """Many more than a scratchpad has lanes, one after the other."""

    class Again(Part):
        def notify(self, notice: int, number: int, now: int) -> int:
            if now < 1000:
                self.submit(EngineType.TE, 0, (1, 2, 1, 64))
            return NEVER

    part = Again({0: lambda p: p.give(EngineType.TE, 0, (1, 2, 1, 64))})
    run = Machine(load_config({}), Program("none"), {"part": part})
    run.run()
    assert run.cycle == 1004 and run.result().counters["te0"]["busy"] == 1004


def test_routes_of_any_length_are_found_while_transfers_run() -> None:
    """Loads of 64 KiB from ever farther away, each asked for while those before it share links, against all known at once."""
    addresses = [0, 16 << 30, 3 * (16 << 30), 7 * (16 << 30), 4 * (16 << 30)]

    def one(address: int) -> Any:
        return lambda part: load(part, 0, address, row_bytes=1 << 16, stride=1 << 16)

    def first(part: Part) -> None:
        for address in reversed(addresses):
            part.whole.plan.reach.route_to(0, address, False)
        one(addresses[0])(part)

    later = {150 * k: one(address) for k, address in enumerate(addresses)}
    _, found = on_two_sips(later, flows=0)  # no room for paths of its own: the lists of members grow
    _, known = on_two_sips({**later, 0: first}, flows=0)
    assert len(found.log) == len(addresses) and found.log == known.log
    assert min(end for _, _, end in found.log) > 150 * len(addresses)  # all of them shared


WRONG: dict[str, tuple[dict[str, int], str]] = {
    "no memory": ({"memory": 73}, "it submits a job with a wrong params[6]"),
    "no route": ({"route": 2}, "it submits a job with a wrong params[7]"),
    "inside a route": ({"route": 1}, "it submits a job with a wrong params[7]"),
    "of another memory": ({"memory": 1}, "it submits a job with a wrong params[7]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_transfer_over_no_route_is_refused(name: str) -> None:
    changed, message = WRONG[name]
    run, _ = on_two_sips({0: lambda part: load(part, **changed)})
    assert run.status == "failed" and message in run.result().failure["message"]  # type: ignore[index]


def test_a_transfer_on_a_system_says_its_way() -> None:
    run, _ = on_two_sips({0: lambda part: part.give(0, 0, (0, 0, 0, 64, 64, 1), ((0, 64, 1),))})
    message = "it submits a job with a wrong number of parameters or regions"
    assert run.status == "failed" and message in run.result().failure["message"]  # type: ignore[index]


def test_a_job_whose_place_is_taken_again_has_no_start() -> None:
    run, _ = on_two_sips({0: lambda part: part.started(5)})
    message = "job 5 is none that it has submitted, or its place is taken again"
    assert run.status == "failed" and message in run.result().failure["message"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("memory", "links", "latency", "message"),
    [
        (73, [200], 0, "a route to memory 73: the machine has 73"),
        (0, [127], 0, "a route over resource 127: links are 128 to 889"),
        (0, [890], 0, "a route over resource 890: links are 128 to 889"),
        (0, [200, 300, 200], 0, "a route goes over each link once"),
        (0, [200], -1, "a route over 1 links with a latency of -1 cycles: it has up to 1048576 links, and no latency below 0"),
        (64, [], 0, "a route without a link to a memory without channels: nothing limits it"),
    ],
)
def test_a_route_that_cannot_be_is_refused(memory: int, links: list[int], latency: int, message: str) -> None:
    run = Machine(load_config(TWO_SIPS), Program("none"), whole=True)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        run._core.add_route(memory, links, latency)
    assert run.snapshot()


def test_one_npu_takes_no_routes() -> None:
    run = Machine(load_config({}), Program("none"))
    with pytest.raises(ValueError, match=r"^the routes of one NPU are all there from the start$"):
        run._core.add_route(0, [], 0)


def test_a_run_with_routes_of_its_own_cannot_be_saved() -> None:
    run = Machine(load_config(TWO_SIPS), Program("none"), whole=True)
    before = run.snapshot()
    assert run.plan.reach is not None
    run.plan.reach.route_to(0, 0, False)
    message = "routes were found while it went on, and such a run cannot be saved"
    with pytest.raises(InputError, match=message):
        run.snapshot()
    with pytest.raises(ValueError, match=message):
        run.restore(before)


@pytest.mark.parametrize(
    ("address", "nbytes", "bytes_at"),
    [
        (-1, 1, "[-64, 0)"),
        ((16 << 30) // 8 - 64, 65, "[2147483584, 2147483712)"),  # past the end of slice 0
        (8 * (16 << 30) + (32 << 20) - 1, 2, "[137472507840, 137472507968)"),  # past the first SRAM
        (8 * (16 << 30) + 8 * (32 << 20), 1, "[137707388928, 137707388992)"),  # a scratchpad
        (0, 0, "[0, 0)"),
    ],
)
def test_bytes_in_no_memory_are_refused(address: int, nbytes: int, bytes_at: str) -> None:
    run = Machine(load_config(TWO_SIPS), Program("none"), whole=True)
    assert run.plan.reach is not None
    with pytest.raises(InputError) as raised:
        run.plan.reach.route_to(0, address, False, nbytes)
    said = f"its bytes, aligned to 64, are {bytes_at}, and they must be in one slice of an HBM stack or in one SRAM"
    assert f"{TWO_SIPS}.yaml: address = {address}, but {said}" in str(raised.value), raised.value
    where = "stack K has 17179869184 bytes from 0 + K * 17179869184 on, in slices of 2147483648"
    assert where in str(raised.value)


def test_jobs_of_components_are_seen() -> None:
    def act(part: Part) -> None:
        work(part, 2)
        load(part)

    part = Part({0: act})
    part.whole = run = Machine(load_config(TWO_SIPS), Program("none"), {"part": part}, whole=True)
    run.step(3)
    seen = {engine.name: engine for engine in run.peek().engines}
    ve, dma = seen["sip0.cube0.pe3.pe_math"], seen["sip0.cube0.pe0.pe_dma"]
    assert (ve.activity, ve.entry, ve.opcode, ve.queue, ve.next_event) == ("busy", -1, "COMPONENT", (-1,), 4)
    assert [(job.id, job.opcode, job.bytes_left) for job in dma.jobs] == [(-1, "COMPONENT", 64)]
