"""Changes with which a model fits a machine whose DRAM is too small; each suggestion is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.kinds import as_npu, systems_of
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.precision import Precision

Fits = Callable[[Precision, "NpuConfig | SystemConfig", Job], bool]
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_WIDTHS = {"w": (16, 8, 4, 2, 1), "kv": (16, 8, 6, 5, 4, 3, 2, 1)}


def what_fits(model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, need: int, fits: Fits) -> str:
    """Text such as `to make the model fit, use --layers 7, --tp 8 or --set dram.capacity_bytes=4GiB`: alternative changes, each
    of which is enough.

    `need`: [B] of DRAM; `fits`: whether the model fits with these fields of the job.
    """
    ways = [*_parts(config, precision, job, fits), *_stages(model, precision, config, job)]
    ways += _layers(model, precision, config, job, fits)
    ways += [*_bits(precision, config, job, fits), *_capacity(precision, config, job, need, fits)]
    return f"to make the model fit, use {', '.join(ways[:-1])}{' or ' if len(ways) > 1 else ''}{ways[-1]}" if ways else ""


def _parts(config: NpuConfig | SystemConfig, precision: Precision, job: Job, fits: Fits) -> Iterator[str]:
    """More PEs; for a machine with one PE, the PEs of the smallest system of the package."""
    machine, option = (config, "") if config.pes > 1 else (next(iter(systems_of(2)), None), "-c {} ")
    if machine is None:
        return
    for shards in (2, 4, 8, 16, 32, 64, 128):
        if job.shards < shards <= machine.pes and fits(precision, machine, replace(job, shards=shards)):
            yield f"{option.format(machine.source.removesuffix('.yaml'))}--tp {shards}"
            return


def _stages(model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job) -> Iterator[str]:
    """A pipeline, with the same number of shards or with the fewest PEs."""
    if config.pes > 1:
        from kernbench.workloads.parallel.fitting import suggested
        from kernbench.workloads.parallel.layout import Layout

        layout = Layout(job.shards, dp=job.sharers, cp=job.contexts, sp=job.splits_rows, shared_experts=job.sharers > 1)
        ways = suggested(model, precision, config, job, layout)
        yield from (way for way in ways if any(option in way for option in ("--pp", "--cp", "--rank")))


def _layers(model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, fits: Fits) -> Iterator[str]:
    """The largest number of layers that fits."""
    low, high = 0, (job.layers or model.layers) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(precision, config, replace(job, layers=middle)) else (low, middle - 1)
    if low:
        yield f"--layers {low}"


def _bits(precision: Precision, config: NpuConfig | SystemConfig, job: Job, fits: Fits) -> Iterator[str]:
    """Fewer bits of weights or of the cache, unless a policy sets these bits."""
    if precision.layers or precision.roles:
        return
    for name, widths in _WIDTHS.items():
        for bits in widths:
            if bits < getattr(precision, name) and fits(precision.model_copy(update={name: bits}), config, job):
                yield f"--{name} {bits}"
                break


def _capacity(precision: Precision, config: NpuConfig | SystemConfig, job: Job, need: int, fits: Fits) -> Iterator[str]:
    """More DRAM for each PE, rounded up in the largest unit that does not add much."""
    shares = -(-config.memory.capacity_bytes // as_npu(config).dram.capacity_bytes)
    size, unit = next(((size, name) for size, name in _UNITS if need >= size), (1, "B"))
    path, many = f"{config.memory_path}capacity_bytes", -(-need // size) * shares
    try:
        larger = load_config(config.to_dict(), {path: many * size})
    except InputError:  # another rule of the machine does not allow this capacity
        return
    if fits(precision, larger, job):
        yield f"--set {path}={many}{unit}"
