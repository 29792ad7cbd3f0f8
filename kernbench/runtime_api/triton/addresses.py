"""Arguments with addresses of torch tensors, as `data_ptr` returns them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernbench.triton.arguments import TensorPointers, array_of

LIMIT = 4096  #: largest number of elements of an argument that is searched for addresses
LEAST = 1 << 32  #: smallest number that is treated as an address; smaller integers are offsets and sizes


def resolved(kernel: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each array of addresses by the tensors at these addresses.

    An argument is an array of addresses if it has 64-bit integers, and if each of them is the `data_ptr` of a torch tensor that
    exists. All other arguments stay as they are.
    """
    found = dict(arguments)
    if "torch" not in sys.modules:
        return found
    wanted: dict[str, list[int]] = {}
    for name, value in arguments.items():
        array = array_of(f"{kernel}: argument {name}", value)
        if array is None or array.dtype not in (np.int64, np.uint64) or not 0 < array.size <= LIMIT:
            continue
        if array.flags.c_contiguous and int(array.min()) >= LEAST:
            wanted[name] = array.reshape(-1).tolist()
    if wanted:
        tensors = _tensors_at({one for addresses in wanted.values() for one in addresses})
        for name, addresses in wanted.items():
            if all(one in tensors for one in addresses):
                found[name] = TensorPointers([tensors[one] for one in addresses])
    return found


def _tensors_at(addresses: set[int]) -> dict[int, Any]:
    """The torch tensor on the host that begins at each address; if there are several, the one with the most elements."""
    import torch

    found: dict[int, Any] = {}
    for one in gc.get_objects():
        if not issubclass(type(one), torch.Tensor) or one.device.type != "cpu" or one.layout != torch.strided:
            continue
        at = one.data_ptr()
        if at in addresses and (at not in found or one.numel() > found[at].numel()):
            found[at] = one
    return found
