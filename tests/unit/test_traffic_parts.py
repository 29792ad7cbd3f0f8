"""`TrafficPart`: parts of a machine file that see the transfers that pass them, and set the bandwidths of their links."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import GraphEngine, Machine, Program, load_config
from kernbench.common.errors import InputError
from kernbench.runtime_api.bench import Bench
from tests.unit.traffic_examples import Watch

HERE = Path(__file__).parent
MODULE = "tests.unit.traffic_examples"


def config(machine: str, *overrides: str, **kinds: str) -> Any:
    """A machine whose parts are of the examples."""
    impls = [f"components.{kind}.impl={MODULE}:{name}" for kind, name in kinds.items()]
    return load_config(machine, [*impls, *overrides], allow_code=[HERE.parent, HERE])


def far_load(nbytes: int = 4096) -> Program:
    """A load by PE 0 of cube 0 from the memory of cube 1."""
    program = Program("far load")
    where = {"tensor_role": "weight", "qbits": 8, "dram_addr": 2**34, "spm_bank": 0, "spm_offset": 0}
    program.dma_load(node="sip0.cube0.pe0", num_elements=nbytes, **where)
    return program


def ran(machine: Any, program: Program) -> Machine:
    run = Machine(machine, program)
    run.run()
    assert run.status == "done", run.failure()
    return run


@pytest.mark.parametrize(("kind", "name", "links"), [
    ("router", "Watch", 7), ("ucie", "Watch", 3), ("hbm_ctrl", "WatchHbm", 3), ("pe_tcm", "Watch", 1),
])  # fmt: skip
def test_a_part_sees_each_transfer_begin_share_and_end(kind: str, name: str, links: int) -> None:
    """docs/reference/components.md: 120 cycles of set-up and 21 of links, then 2,048 bytes on each of two channels.

    A channel moves 51.2 B a cycle for 40 cycles, and a link both flows.
    """
    Watch.seen.clear()
    run = ran(config("sip_4x4", **{kind: name}), far_load())
    assert run.result().cycles == 181
    by_link: dict[str, list[tuple[Any, ...]]] = {}
    for now, what, link, job, value in Watch.seen:
        by_link.setdefault(link, []).append((now, what, job, value))
    assert len(by_link) == links and set(by_link) <= set(run.plan.resources)
    for link, seen in by_link.items():
        flows = 1 if ".ch" in link else 2
        rate = Fraction(256, 5) * flows
        assert seen == [
            (141, "began", 0, 2048 * flows), (142, "shared", 0, rate), (181, "ended", 0, 2048 * flows),
        ], link  # fmt: skip


def test_a_run_that_is_only_watched_has_the_same_times() -> None:
    """Also with a second transfer that shares links: shares are told whenever they change."""
    program = far_load()
    program.dma_load(
        node="sip0.cube0.pe1", num_elements=2048, tensor_role="weight", qbits=8, dram_addr=2**34, spm_bank=0, spm_offset=0
    )
    plain = ran(load_config("sip_4x4"), program).result()
    Watch.seen.clear()
    watched = ran(config("sip_4x4", router="Watch", ucie="Watch", hbm_ctrl="WatchHbm"), program).result()
    assert (watched.cycles, watched.entries) == (plain.cycles, plain.entries)
    link = "sip0.cube1.ucie_w0-sip0.cube0.ucie_e0"
    mine = [one for one in Watch.seen if one[2] == link]
    assert sorted(one[3] for one in mine if one[1] == "began") == [0, 1]
    both = [one for one in mine if one[1] == "shared"]
    times = sorted({one[0] for one in both})
    moved = {0: Fraction(0), 1: Fraction(0)}
    ends = {one[3]: one[0] for one in mine if one[1] == "ended"}
    for at, after in zip(times, [*times[1:], max([*times, *ends.values()])], strict=True):
        for one in both:
            if one[0] == at:
                moved[one[3]] += one[4] * (min(after, ends.get(one[3], after)) - at)
    assert all(size - moved[job] <= 128 for job, size in ((0, 4096), (1, 2048)))  # but for the last cycle of each


@settings(max_examples=6, deadline=None)
@given(
    num=st.integers(1, 8),
    kind=st.sampled_from(["router", "ucie"]),
    sizes=st.lists(st.integers(1, 4000), min_size=1, max_size=3),
)
def test_a_bandwidth_that_is_set_is_that_of_a_narrower_link(num: int, kind: str, sizes: list[int]) -> None:
    """The part of the route that has the bandwidth from the beginning is asked by other code."""
    program = Program("loads")
    for i, nbytes in enumerate(sizes):
        where = {"tensor_role": "weight", "qbits": 8, "dram_addr": 2**34, "spm_bank": 0, "spm_offset": 0}
        program.dma_load(node=f"sip0.cube0.pe{i}", num_elements=nbytes, **where)
    keys = [f"components.{kind}.num={num}", f"components.{kind}.den=8", "pe.link.bytes_per_cycle=512"]
    one, other = (ran(config("sip_4x4", *keys, **{kind: name}), program) for name in ("Factor", "FixedFactor"))
    assert one.result().entries == other.result().entries


def test_a_part_shapes_a_link_from_cycle_to_cycle() -> None:
    """40 cycles at 102.4 B a cycle; the link to the PE has 128, and 16 for five cycles: these move 80 bytes and not 512."""
    full = ran(load_config("sip_4x4"), far_load()).result().cycles
    shaped = ran(config("sip_4x4", pe_tcm="Later"), far_load()).result().cycles
    lost = 5 * Fraction(512, 5) - 5 * 16
    assert shaped == full + -(-lost // Fraction(512, 5))


def test_a_part_that_watches_may_add_cycles_to_routes() -> None:
    Watch.seen.clear()
    run = ran(config("sip_4x4", ucie="SlowAndWatched"), far_load())
    assert run.result().cycles == 181 + 2 * 7 and Watch.seen[0][0] == 141 + 2 * 7


def test_parts_see_the_transfers_of_kernels() -> None:
    def kernel(tl: Any) -> None:
        tl.store(1 << 20, tl.zeros((64, 64), "f16"))

    Watch.seen.clear()
    engine = GraphEngine(config("single_cube", sram="WatchSram", hbm_ctrl="WatchHbm", io_noc="Watch"))
    engine.run(Bench("watched", "a store", lambda ctx: ctx.launch("store", kernel, grid=1), None))
    ended = [one for one in Watch.seen if one[1] == "ended"]
    assert sum(one[4] for one in ended if ".ch" in one[2]) == 64 * 64 * 2


@pytest.mark.parametrize(("kinds", "more", "text"), [
    ({"io_cpu": "Watch"}, (), "no transfer passes a io_cpu, only launches"),
    ({"router": "Watch"}, ("allocation=fifo_v1",), "a TrafficPart needs the allocation shared_bw_v1 or max_min_v1"),
    ({"router": "Watch"}, ("cube.mesh.model=flit",), "a TrafficPart needs transfers that share links"),
    ({"hbm_ctrl": "Watch"}, (), "its class must be derived from HbmCtrl"),
    ({"sram": "Watch"}, (), "its class must be derived from MemoryPart"),
])  # fmt: skip
def test_what_cannot_be_watched_is_refused(kinds: dict[str, str], more: tuple[str, ...], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Machine(config("sip_4x4", *more, **kinds), far_load())


def test_a_cycle_in_the_past_ends_the_run() -> None:
    run = Machine(config("sip_4x4", pe_tcm="Late"), far_load())
    run.run()
    failure = run.failure()
    assert run.status == "failed" and failure is not None
    assert "sip0.cube0.pe0.pe_tcm: shape of" in failure["message"] and "it must be a later cycle or NEVER" in failure["message"]
