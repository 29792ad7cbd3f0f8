"""`evaluate`: runs one kernel on one PE, and returns its tensor as a numpy array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.config.machine import MachineConfig
from kernbench.runtime_api.bench import Bench
from kernbench.runtime_api.context import Context
from kernbench.sim_engine.engine import GraphEngine
from kernbench.triton_emu.handle import KernelTensor

DEFAULT_MACHINE = "single_cube"


def evaluate(kernel: Callable[..., Any], *arrays: Any, config: str | MachineConfig = DEFAULT_MACHINE) -> Any:
    """Run a kernel as one program on one PE, and return its result; a tensor is returned as a numpy array.

    `kernel`: a function that takes a pointer for each of `arrays`, and then `tl`. `arrays`: arguments of `np.asarray`,
    which keep their element types: Python floats are f64. `config`: a machine, by name, as a file or as an object. Phase 2
    computes the elements of the tensor, as it does when a bench with this kernel is verified. Any other result is returned
    unchanged.

    Raises KernelFailed if the kernel raises an exception, and InputError if it returns a tensor without elements.

    >>> from kernbench.testing.evaluate import evaluate
    >>> evaluate(lambda tl: tl.exp(tl.zeros((2, 2), "f32")))
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    >>> evaluate(lambda x, tl: tl.sum(tl.load(x, x.shape, x.dtype), axis=0), [[1, 2], [3, 4]])
    array([4, 6])
    """
    returned: list[Any] = []

    def first(*given: Any, tl: Any) -> None:
        returned.append(kernel(*given, tl))

    _run(first, arrays, None, config)
    found = returned[0]
    if not isinstance(found, KernelTensor):
        return found
    if not found.nbytes:
        raise InputError(Problem("evaluate", "the kernel returned a tensor without elements", "shape", list(found.shape)))

    def second(*given: Any, tl: Any) -> None:
        tl.store(given[-1], kernel(*given[:-1], tl))

    return _run(second, arrays, (found.shape, found.dtype), config)


def _run(
    kernel: Callable[..., None], arrays: Sequence[Any], result: tuple[Sequence[int], str] | None, config: str | MachineConfig
) -> Array | None:
    made: list[Array] = []

    def bench(ctx: Context) -> None:
        tensors = [ctx.from_numpy(np.asarray(one)) for one in arrays]
        out = [] if result is None else [ctx.empty(*result)]
        ctx.launch("evaluate", kernel, *tensors, *out, grid=1, pes=1)
        if out:
            made.append(ctx.to_numpy(out[0]))

    GraphEngine(config).run(Bench("evaluate", "one kernel on one PE", bench, None))
    return made[0] if made else None
