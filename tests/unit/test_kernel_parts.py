"""Parts of a PE: what is quick for the usual class must not pass by what a class in its place does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.common.handles import TensorHandle
from kernbench.common.pe_ops import DmaReadCmd
from kernbench.components.base import Clock
from kernbench.components.builtin.flight import Flight
from kernbench.components.builtin.pe_dma import PeDma
from kernbench.components.builtin.transfers import OneMemory
from kernbench.triton_emu import kernel_system as assembly
from tests.kernels import Run


class OwnOrders(PeDma):
    def orders(self, msg: Any) -> Any:
        return [((0, 0, msg.src_addr, msg.nbytes // 2, 0, 1), ((0, msg.nbytes // 2, 1),))]


def part(kind: type[PeDma]) -> PeDma:
    routes = OneMemory(1 << 20, 32)
    return kind("sip0.cube0.pe0.pe_dma", (0,), Clock(), 0, align=32, scratchpad_bytes=4096, memory_routes=routes)


def load(src_addr: int, nbytes: int = 64) -> Flight:
    msg = DmaReadCmd(TensorHandle("x", 0, (nbytes // 4,), "f32"), src_addr, nbytes, line="k.py:1", op_id=7)
    return Flight(msg, part(PeDma), 0, "k.py:1")


@pytest.mark.parametrize("addr", [0, 32, 40])
def test_a_plain_load_is_the_job_that_its_orders_are(addr: int) -> None:
    flight = load(addr)
    assert part(PeDma).plan(flight) and flight.plain
    (params, ((place, travel, write),)), = part(PeDma).orders(flight.msg)
    assert tuple(params) == (flight.channel, flight.write, flight.addr, flight.nbytes, 0, 1)
    assert (place, travel, write) == (flight.place, flight.travel, 1)


def test_a_load_over_the_end_of_a_memory_or_of_the_scratchpad_is_not_plain() -> None:
    assert not part(PeDma).plan(load((1 << 20) - 32)) and not part(PeDma).plan(load(0, 8192))


def test_a_class_with_orders_of_its_own_is_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load of 1,024 bytes at 64 a cycle, of which the class orders half."""

    def kernel(tl: Any) -> None:
        tl.load(0, (256,), "f32")

    ends = []
    for kind in (PeDma, OwnOrders):
        monkeypatch.setattr(assembly, "PeDma", kind)
        ends.append(Run(kernel, memory={0: np.zeros(256, np.float32)}).run().launch.end)
    assert ends == [17, 9]
