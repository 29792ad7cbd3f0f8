"""Energy by component: the accesses of a traced run, multiplied by the published energy of an access, compared with published
shares.

Inputs, weights and outputs of the run have separate address ranges in the scratchpad. Each buffer of a chip gets the accesses
of the tensors that it holds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.cmdq import Program
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, load_config
from kernbench.trace.energy import NO_COMPONENT
from kernbench.trace.energy_components import SCHEMA, Components, components_from
from kernbench.trace.reader import open_trace
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

WHY = "asked of the relative error of each share; in parentheses, the difference of the shares in percentage points"
UNPRICED = "the source does not say which tensors the component holds, so it is not part of the other shares"
LEFT_OUT = (
    "with the accesses that the published model leaves out: it counts the write of a sum into a buffer, but not the read when "
    "the sum moves on to the next memory"
)
CHUNK = 4 * 2**20  #: [byte] size of a transfer, and of a bank
BANKS = 16  #: number of banks of a tensor
TENSORS = ("inputs", "weights", "outputs")
PLACES = {
    f"{tile}_{what}": BANKS * k if what == "bank" else 0
    for k, tile in enumerate(("ifm", "wgt", "ofm"))
    for what in ("bank", "offset")
}


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a product: the jobs of the array, and the bytes that its tensors move from and to DRAM."""

    shape: tuple[int, int, int]  #: m, n and k of a job
    jobs: Fraction
    inputs: Fraction
    weights: Fraction
    outputs: Fraction


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """The share of each component in the energy of each case, in percent."""
    for case in data.cases:
        chip = data.fact("accelerators")[case["chip"]]
        prices = chip["components"]
        ours, whole = energies(case, chip, runner)
        published = {name: exact(value) for name, value in case["published"].items()}
        priced = sum(published[name] for name in prices)
        for name, value in published.items():
            known = name in prices
            expected = 100 * value / (priced if known else sum(published.values()))
            share = 100 * ours[name] / sum(ours.values()) if known else Fraction(0)
            yield Row(
                case=f"{case['name']}: {name}",
                source=case["source"],
                expected=expected,
                ours=share,
                unit="% of the energy",
                allowed=exact(data.fact("tolerance")) if known else None,
                why=WHY if known else UNPRICED,
            )
        for name in chip.get("left_out", ()):
            yield Row(
                case=f"{case['name']}: {name}, all accesses",
                source=case["source"],
                expected=100 * published[name] / priced,
                ours=100 * whole[name] / sum(whole.values()),
                unit="% of the energy",
                allowed=None,
                why=LEFT_OUT,
            )


def energies(
    case: Mapping[str, Any], chip: Mapping[str, Any], runner: Runner
) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """[pJ] of each component, by the trace of a run: of the accesses that the published model counts, and of all accesses."""
    bits = 8 if "weight_bits" in chip else chip["bits"]  # packed weights are unpacked to whole nibbles between buffer and array
    program = Program(case["name"])
    for product in case["products"]:
        _append(program, work(case, chip, product), case["scale"], {"qbits_weight": bits, "qbits_activation": chip["bits"]})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.jsonl"
        runner.trace(program, _machine(), file)
        return by_component(file, chip["components"]), by_component(file, every_rule(chip))


def by_component(file: Path, rules: Mapping[str, Any]) -> dict[str, Fraction]:
    """[pJ] of each component of a trace."""
    spent = components(rules).price(open_trace(file)).by("component")
    return {name: Fraction(0) for name in rules} | {one.name: one.pj for one in spent if one.name != NO_COMPONENT}


def every_rule(chip: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of each component, with those of accesses that the published model leaves out."""
    more = chip.get("left_out", {})
    return {name: [*rules, *more.get(name, ())] for name, rules in chip["components"].items()}


def components(rules: Mapping[str, Any]) -> Components:
    """The components with these rules, with the address range of each tensor."""
    ranges = {tensor: [CHUNK * BANKS * k, CHUNK * BANKS * (k + 1)] for k, tensor in enumerate(TENSORS)}

    def rule(given: Mapping[str, Any]) -> dict[str, Any]:
        rest = {key: value for key, value in given.items() if key != "tensor"}
        return rest | ({"addresses": ranges[given["tensor"]]} if "tensor" in given else {})

    named = {name: [rule(one) for one in of_one] for name, of_one in rules.items()}
    return components_from({"schema": SCHEMA, "components": named}, "energy_parts.yaml")


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
    usual = {"inputs": inputs * again[0], "weights": weights * again[1], "outputs": outputs}
    jobs = Fraction(ceil_div(m, height) * ceil_div(n, width))
    return Work((height, width, k), jobs * count, **{name: Fraction(given.get(name, usual[name])) * count for name in TENSORS})


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
    for place, tensor in enumerate(TENSORS):
        move = program.dma_store if tensor == "outputs" else program.dma_load
        left = round(getattr(done, tensor) / scale)
        while left:
            part = min(CHUNK, left)
            bank = BANKS * place
            move(tensor_role="activation", qbits=8, dram_addr=0, spm_bank=bank, spm_offset=0, num_elements=part)
            left -= part


def _machine() -> NpuConfig:
    """A machine whose times and prices have no effect."""
    made: NpuConfig = load_config(
        {
            "te": {"engines": 1, "macs_per_cycle": 2**20, "init_cycles": 0, "finalize_cycles": 0},
            "spm": {
                "num_banks": len(TENSORS) * BANKS, "bank_size_bytes": CHUNK, "bank_width_bytes": 4096,
                "map": "blocked",
            },
            "dram": {"bus_width_bytes": 4096, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 4096},
            "dma": {"alignment_bytes": 1},
        }
    )  # fmt: skip
    return made


def exact(value: Any) -> Fraction:
    """A number of the data file."""
    return value if isinstance(value, Fraction) else Fraction(str(value))
