"""Lower bounds of a kernel run, worked out by hand from its counters."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from kernbench.sim_engine.summary import Roof, roof_share, roofs


def engine(busy: int) -> dict[str, Any]:
    return {"jobs": 1, "busy": busy, "idle": 0, "stalled": {"bank_conflict": 0}}


def counted(**counters: Any) -> Any:
    return SimpleNamespace(counters={name.replace("_ch", ".ch"): value for name, value in counters.items()}, cycles=100)


PLAN: Any = SimpleNamespace(
    resources=("dram.ch0", "dram.ch1", "noc.r0c0-r0c1"), capacities=(Fraction(16), Fraction(512, 10), Fraction(64))
)


def test_of_each_kind_the_highest() -> None:
    # Channel 0: 100 / 16 = 6.25, so 7; channel 1: 512 / 51.2 = 10. Two tensor engines share 31 busy cycles: 15.5, so 16.
    channels = {"dram_ch0": {"bytes": 100}, "dram_ch1": {"bytes": 512}}
    result = counted(**channels, te0=engine(30), te1=engine(1), ve0=engine(3), dma0=engine(90))
    assert roofs(result, PLAN) == [Roof("te", "te", 16), Roof("dram.ch1", "DRAM", 10), Roof("ve", "ve", 3)]


def test_engines_of_different_pes_do_not_share() -> None:
    busy = {"pe0.pe_gemm": 8, "pe1.pe_gemm[0]": 9, "pe1.pe_gemm[1]": 3}
    result = counted(**{f"sip0.cube0.{name}": engine(cycles) for name, cycles in busy.items()})
    assert roofs(result, PLAN) == [Roof("sip0.cube0.pe0 te", "te", 8)]


def test_the_highest_beside_the_run() -> None:
    share = roof_share(counted(), [Roof("te", "te", 40), Roof("dram.ch0", "DRAM", 10), Roof("ve", "ve", 0)])
    assert (share.name, share.cycles, share.achieved, share.others) == ("te", 40, 100, (("dram.ch0", 10),))
    assert share.share == 0.4
