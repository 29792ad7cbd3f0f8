"""Energy by layer of a measured chip, Eyeriss: the prices of its parts, multiplied by the work and the time of each layer."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from kernbench.cmdq import Program
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, load_config
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

WHY = "asked of this comparison; layers differ in data reuse and in the use of the array, which the prices do not know"
FITTED = "the two prices are fitted to the energy of this layer, so its share says nothing"
LINE = 64  #: [byte] size of a transfer, to which counts are rounded


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """The share of each layer in the energy of its network, in percent."""
    mac_pj, static_mw = fitted(data)
    spent = [_energy(case, mac_pj, static_mw, data, runner) for case in data.cases]
    measured = [_exact(case["mw"]) * _exact(case["ms"]) for case in data.cases]
    for i, case in enumerate(data.cases):
        of = [k for k, other in enumerate(data.cases) if other["net"] == case["net"]]
        yield Row(
            case=f"{case['net']} {case['layer']}",
            source=case["net"],
            expected=100 * measured[i] / sum(measured[k] for k in of),
            ours=100 * spent[i] / sum(spent[k] for k in of),
            unit="% of the network's energy",
            allowed=None if case.get("fitted") else _exact(data.fact("tolerance")),
            why=FITTED if case.get("fitted") else WHY,
        )


def fitted(data: SuiteData) -> tuple[Fraction, Fraction]:
    """[pJ] of a MAC without its registers, and [mW] static: both from the two layers that are marked as fitted."""
    used = [case for case in data.cases if case.get("fitted")]
    (a, b, e), (c, d, f) = ((*_work(case, data), _exact(case["mw"]) * _exact(case["ms"])) for case in used)
    whole = a * d - b * c  # the equations are: a ms + b pJ = e [uJ], c ms + d pJ = f
    return (a * f - c * e) / whole, (e * d - b * f) / whole


def _work(case: dict[str, Any], data: SuiteData) -> tuple[Fraction, Fraction]:
    """[ms] of a layer, and [uJ] of its MACs, registers and buffer for each pJ of a MAC."""
    macs = _exact(case["gmac"]) * (1 - _exact(case["zeros"])) * 1000
    words = _exact(case["buffer_mb"]) * 8 / data.fact("bits")
    return _exact(case["ms"]), macs * (1 + data.fact("register_accesses")) + words * data.fact("buffer_cost")


def _exact(value: Any) -> Fraction:
    return Fraction(str(value))


def _energy(case: dict[str, Any], mac_pj: Fraction, static_mw: Fraction, data: SuiteData, runner: Runner) -> Fraction:
    """[pJ] of a program with the layer's MACs and buffer accesses that takes its latency, all over `scale`."""
    scale, freq = data.fact("scale"), _exact(data.fact("freq_ghz"))
    macs = round(_exact(case["gmac"]) * 10**9 * (1 - _exact(case["zeros"])) / scale)
    nbytes = ceil_div(round(_exact(case["buffer_mb"]) * 10**6 / scale), LINE) * LINE
    cycles = round(_exact(case["ms"]) * 10**6 * freq / scale)
    body = ceil_div(macs, MACS)
    prices = {
        "mac_pj": {data.fact("bits"): _text(mac_pj * (1 + data.fact("register_accesses")))},
        "spm_pj_per_byte": _text(mac_pj * data.fact("buffer_cost") * 8 / data.fact("bits")),
        "dram_pj_per_byte": 0,
        "static_mw": _text(static_mw),
    }
    te = {"engines": 1, "macs_per_cycle": MACS, "init_cycles": cycles - body, "finalize_cycles": 0, "spm_traffic": False}
    dram = {"bus_width_bytes": LINE, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": LINE}
    machine: NpuConfig = load_config(
        {"freq_ghz": data.fact("freq_ghz"), "te": te, "dram": dram, "spm": {"bank_size_bytes": "1 MiB"}, "energy": prices}
    )
    program = Program(f"{case['net']} {case['layer']}")
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    bits = data.fact("bits")
    program.te_gemm(m=1, n=1, k=macs, qbits_weight=bits, qbits_activation=bits, **places)
    program.dma_load(tensor_role="activation", qbits=8, dram_addr=0, spm_bank=0, spm_offset=0, num_elements=nbytes)
    return Fraction(runner.run(program, machine).metrics["energy_pj"]["total"])


MACS = 168  #: MACs of the array in a cycle


def _text(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"
