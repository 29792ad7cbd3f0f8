"""What a kernel stored that comes of lanes which were masked out of a load without `other`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.words import counted
from kernbench.runtime_api.triton.buffers import Buffers
from kernbench.triton.program import Options


def left_out_notes(options: Options) -> list[str]:
    """A sentence for each store of elements that depend on such lanes."""
    found = []
    for (lines, line), elements in options.reached.items():
        lanes = counted(sum(options.left_out[one] for one in lines), "lane")
        found.append(
            f"{counted(elements, 'element')} stored at {line} {'depends' if elements == 1 else 'depend'} on lanes that a mask "
            f"leaves out of tl.load at {', '.join(sorted(lines))} ({lanes} without other=): they are "
            f"{'poisoned' if options.poison else '0'}; give it other="
        )
    return found


def nan_of_masks(options: Options, buffers: Buffers, arrays: Mapping[str, Array]) -> list[str]:
    """A sentence for each array that has NaN now, where none was in what the kernel loaded."""
    if not options.bare or buffers.had_nan(options.read):
        return []
    found = []
    for name, array in arrays.items():
        if buffers.stretch_of(name) not in options.written:
            continue
        nan = _nan(array)
        if nan.any():
            first = ", ".join(str(int(one)) for one in np.unravel_index(int(np.argmax(nan)), nan.shape))
            where = ", ".join(options.bare)
            found.append(
                f"{name}[{first}] is NaN ({int(np.count_nonzero(nan))} of {array.size}), and nothing that was loaded is: lanes "
                f"that are masked out of tl.load at {where} are NaN; give it other="
            )
    return found


def _nan(array: Array) -> Array:
    return np.isnan(array.astype(np.float32)) if dtype_of(array.dtype).kind == "float" else np.zeros(array.shape, np.bool_)
