"""Energy by component: the accesses counted in a run, multiplied by the published energy of an access, compared with published
shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.cmdq import Program
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, load_config
from kernbench.validate.run import Stand
from kernbench.validate.suite import Row, SuiteData

WHY = "asked of this comparison; the models count some accesses to buffers differently"
UNPRICED = "machines have no price for a second buffer, so the component has no energy here and is not part of the other shares"
CHUNK = 4 * 2**20  #: [byte] size of a transfer
PLACES = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
KEYS = {"dram": "dram_pj_per_byte", "spm": "spm_pj_per_byte"}


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a product: the jobs of the array, and the bytes that its tensors move from and to DRAM."""

    shape: tuple[int, int, int]  #: m, n and k of a job
    jobs: Fraction
    loaded: Fraction
    stored: Fraction


def rows(data: SuiteData, stand: Stand) -> Iterator[Row]:
    """The share of each component in the energy of each case, in percent."""
    for case in data.cases:
        chip = data.fact("accelerators")[case["chip"]]
        prices, ours = chip["components"], energies(case, chip, stand)
        published = {name: exact(value) for name, value in case["published"].items()}
        priced = sum(published[name] for name in prices)
        for name, value in published.items():
            known = name in prices
            yield Row(
                case=f"{case['name']}: {name}",
                source=case["source"],
                expected=100 * value / (priced if known else sum(published.values())),
                ours=100 * ours[name] / sum(ours.values()) if known else 0,
                unit="% of the energy",
                allowed=exact(data.fact("tolerance")) if known else None,
                why=WHY if known else UNPRICED,
            )


def energies(case: Mapping[str, Any], chip: Mapping[str, Any], stand: Stand) -> dict[str, Fraction]:
    """[pJ] of each component in a run: the energy of each part of the machine, divided as its price is."""
    prices = chip["components"]
    of_part = {part: sum((exact(one.get(part, 0)) for one in prices.values()), Fraction(0)) for part in ("dram", "spm", "mac")}
    bits = 8 if "weight_bits" in chip else chip["bits"]  # packed weights are unpacked to whole nibbles between buffer and array
    program = Program(case["name"])
    for product in case["products"]:
        _append(program, work(case, chip, product), case["scale"], {"qbits_weight": bits, "qbits_activation": chip["bits"]})
    spent = stand.run(program, _machine(of_part, bits)).metrics["energy_pj"]
    return {
        name: sum((Fraction(spent[part]) * exact(one[part]) / of_part[part] for part in one), Fraction(0))
        for name, one in prices.items()
    }


def work(case: Mapping[str, Any], chip: Mapping[str, Any], product: Mapping[str, Any]) -> Work:
    """The jobs and bytes of a product `(m, k) @ (k, n)`, `count` times; with k = 0 only tensors move."""
    (m, k, n), count = product["mkn"], product.get("count", 1)
    array = chip["array"]
    height = array["m"] if chip.get("idle_lanes") else min(m, array["m"])
    width = array["n"] if chip.get("idle_lanes") else min(n, array["n"])
    bits = exact(chip["bits"])
    inputs, outputs = m * k * bits / 8, m * n * bits / 8
    weights = k * n * exact(product.get("weight_bits", chip.get("weight_bits", bits))) / 8
    again = refetched(inputs, weights, chip.get("buffers"))
    given = product.get("moved", {})
    loaded = given.get("inputs", inputs * again[0]) + given.get("weights", weights * again[1])
    jobs = Fraction(ceil_div(m, height) * ceil_div(n, width))
    return Work((height, width, k), jobs * count, Fraction(loaded) * count, Fraction(given.get("outputs", outputs)) * count)


def refetched(inputs: Fraction, weights: Fraction, buffers: Mapping[str, int] | None) -> tuple[int, int]:
    """The number of times that inputs and weights are loaded from DRAM.

    If neither fits its buffer, one of them is loaded once for each part of the other, namely the one for which fewer bytes are
    moved in total.
    """
    if buffers is None or inputs <= buffers["inputs"] or weights <= buffers["weights"]:
        return 1, 1
    parts_of_weights = -int(-weights // buffers["weights"])
    parts_of_inputs = -int(-inputs // buffers["inputs"])
    if weights * parts_of_inputs + inputs < inputs * parts_of_weights + weights:
        return 1, parts_of_inputs
    return parts_of_weights, 1


def _append(program: Program, done: Work, scale: int, bits: Mapping[str, int]) -> None:
    """Append one of `scale` equal parts of the work; energy is linear in each count."""
    m, n, k = done.shape
    for _ in range(max(1, round(done.jobs / scale)) if k else 0):
        program.te_gemm(m=m, n=n, k=k, **bits, **PLACES)
    for move, nbytes in ((program.dma_load, done.loaded), (program.dma_store, done.stored)):
        left = round(nbytes / scale)
        while left:
            part = min(CHUNK, left)
            move(tensor_role="activation", qbits=8, dram_addr=0, spm_bank=0, spm_offset=0, num_elements=part)
            left -= part


def _machine(price: Mapping[str, Fraction], bits: int) -> NpuConfig:
    """A machine with these prices; its times have no effect."""
    energy = {key: _text(price[part]) for part, key in KEYS.items()}
    made: NpuConfig = load_config(
        {
            "te": {"engines": 1, "macs_per_cycle": 2**20, "init_cycles": 0, "finalize_cycles": 0},
            "spm": {"num_banks": 64, "bank_size_bytes": "4 MiB", "bank_width_bytes": 64},
            "dram": {"bus_width_bytes": 4096, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 4096},
            "dma": {"alignment_bytes": 1},
            "energy": {
                **energy,
                "mac_pj": {bits: _text(price["mac"])},
                "ve_op_pj": 0,
                "noc_pj_per_byte_hop": 0,
                "static_mw": 0,
            },
        }
    )
    return made


def exact(value: Any) -> Fraction:
    """A number of the data file."""
    return value if isinstance(value, Fraction) else Fraction(str(value))


def _text(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"
