"""Protocols of messages: times by hand, room, rules, the tuner's choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernbench.ccl import dist
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, queues_of, resolved, row, slot_room
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import Tuner
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config
from kernbench.config.system.parts import PROTOCOLS
from tests.queues import IPCQ, LATENCY, SCHEDULER, WIDE, line, now, queued
from tests.queues import row as row_of

REGISTRY = read_registry()
LL, LL128 = "ll: {data_bytes: 4, line_bytes: 8}", "ll128: {cycles: 40, data_bytes: 120, line_bytes: 128}"
SET = f"pe.ipcq.protocols={{simple: {{cycles: 400}}, {LL}, {LL128}}}"
X = np.arange(4096, dtype=np.float32)


def small(**changed: Any) -> SystemConfig:
    """Two PEs with three protocols: 64 B a cycle everywhere."""
    return row_of(2, pe__ipcq__protocols=SET.partition("=")[2].replace("400", "30").replace("40", "7"), **changed)


@pytest.mark.parametrize(
    ("protocol", "elements", "nbytes", "flag"),
    [
        (None, 160, 640, 30), ("simple", 1, 4, 30), ("ll", 160, 1280, 0), ("ll", 1, 8, 0),
        ("ll128", 30, 128, 7), ("ll128", 31, 256, 7), ("ll128", 240, 1024, 7),
    ],
)  # fmt: skip
def test_a_message_travels_in_lines_and_is_seen_with_its_flag(
    protocol: str | None, elements: int, nbytes: int, flag: int
) -> None:
    """The sender is free when the bytes have arrived; the receiver continues `cycles` later, and not in the cycle before."""
    seen = {}

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (elements,), "f32")
            seen["sent"] = now(tl)
            tl.wait(tl.send("E", x))
            seen["left"] = now(tl)
        else:
            assert np.array_equal(tl.recv("W", elements, "f32").data, X[:elements])
            seen["came"] = now(tl)

    queued(kernel, line(2), memory={0: X}, config=small(), protocol=protocol).run()
    arrived = seen["sent"] + SCHEDULER + IPCQ + LATENCY + -(-nbytes // WIDE)
    assert (seen["left"], seen["came"]) == (arrived, arrived + flag)


def test_flags_come_in_the_order_of_the_messages() -> None:
    """A short message that overtakes a long one on the way is seen after it."""
    seen = []

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (2048,), "f32")
            tl.send("E", x)
            tl.send("E", tl.part(x, 0, 16))
        else:
            for one in [tl.recv_async("W", count, "f32") for count in (2048, 16)]:
                tl.wait(one)
                seen.append(now(tl))

    run = queued(kernel, line(2), memory={0: X}, config=small(), slots=2, slot_bytes=8192).run()
    ends = [int(one.t_end) for one in run.log if one.op_name == "ipcq_copy"]  # type: ignore[union-attr]
    assert min(ends) + 30 < seen[0] == seen[1] == max(ends) + 30


@pytest.mark.parametrize("tier", ["tcm", "sram", "hbm"])
def test_slots_have_room_for_the_longest_message_in_lines(tier: str) -> None:
    """Also from the last bytes of a scratchpad, where lines are longer than the tile."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            free = tl.limits().free_bytes
            tl.keep = tl.alloc((free - 1024,), "u8")
            x = tl.load(0, (256,), "f32")
            tl.wait(tl.send("E", x))
        else:
            assert np.array_equal(tl.recv("W", 256, "f32").data, X[:256])

    config = small()
    run = queued(kernel, line(2), memory={0: X}, config=config, protocol="ll", slots=2, slot_bytes=1024, tier=tier)
    for ring in run.system.queues.rings:
        assert ring.address(1) - ring.address(0) == 2048
    run.run()


def test_a_machine_has_the_protocols_of_its_file() -> None:
    """Without the key simple alone, as before there were protocols, and the same digest."""
    plain, own = load_config("single_cube", kind=SystemConfig), load_config("single_cube", [SET], kind=SystemConfig)
    assert plain.pe.ipcq.protocol_names == ["simple"] and "protocols" not in plain.to_dict()["pe"]["ipcq"]
    assert own.pe.ipcq.protocol_names == list(PROTOCOLS) and own.digest() != plain.digest()
    with pytest.raises(InputError, match=r"data_bytes = 9, but it must be at most the bytes of a line, 8"):
        load_config("single_cube", ["pe.ipcq.protocols={ll: {data_bytes: 9, line_bytes: 8}}"])
    with pytest.raises(InputError, match=r"protocol = \"?ll\"?, but the machine has simple"):
        queued(lambda tl: None, line(2), protocol="ll")


def request(config: SystemConfig, algorithm: str | None, protocol: str | None = None, check: bool = False) -> CclRequest:
    entry, group = REGISTRY.find("all_reduce", algorithm), group_of(config, Shape(1, 1, 8))
    return CclRequest(config, group, entry, "f16", queues_of(REGISTRY, entry, protocol=protocol), check)


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_results_are_right_in_every_bit(algorithm: str, protocol: str) -> None:
    made, _ = row(request(load_config("single_cube", [SET]), algorithm, protocol, check=True), 700)  # type: ignore[arg-type]
    assert made is not None and made.wrong == 0


def test_the_tuner_takes_ll_for_short_messages_and_simple_for_long_ones() -> None:
    """For a named algorithm as well; the choice is nearly the best of the three in simulation."""
    config = load_config("single_cube", [SET], kind=SystemConfig)
    for count in (64, 32768, 1 << 19):
        one = resolved(request(config, "ring"), count)
        times = {}
        for protocol in PROTOCOLS:
            made, _ = row(request(config, "ring", protocol), count)
            assert made is not None
            times[protocol] = made.cycles
        assert times[one.queues.protocol or ""] <= 1.1 * min(times.values())
    chosen = [resolved(request(config, None), count).queues.protocol for count in (64, 1 << 21)]
    assert chosen == ["ll", "simple"]


def test_estimates_follow_the_protocol() -> None:
    """Twice the bytes for LL, and the flags of all steps for Simple."""
    config = load_config("single_cube", [SET], kind=SystemConfig)
    one = Tuner(config, group_of(config, Shape(1, 1, 8)), REGISTRY)
    ring = REGISTRY.find("all_reduce", "ring")
    short = {name: one.cycles(ring, 8, 2, name) for name in PROTOCOLS}
    long = {name: one.cycles(ring, 1 << 22, 2, name) for name in PROTOCOLS}
    assert short["simple"] - short["ll"] == pytest.approx(14 * 400, rel=0.2)
    assert long["ll"] == pytest.approx(2 * long["simple"], rel=0.15)
    assert slot_room(config, replace(queues_of(REGISTRY, ring), protocol="ll")) == 2 * 32768


def test_dist_uses_the_protocol_of_the_tuner() -> None:
    """A short all-reduce takes as long as with LL, far less than 14 flags of Simple."""
    cycles = []
    for names in ([SET], ["pe.ipcq.protocols={simple: {cycles: 400}}"]):

        def worker(rank: int) -> None:
            dist.init_process_group(backend="kernbench")
            x = dist.from_numpy(np.full(64, rank, np.float16))
            dist.all_reduce(x)
            assert (dist.to_numpy(x) == 28).all()

        engine = dist.spawn(worker, nprocs=8, machine=load_config("single_cube", names))
        cycles.append(engine.machine.result().cycles)
    assert cycles[0] + 300 < cycles[1]
