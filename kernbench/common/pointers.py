"""The argument of a kernel for a tensor: the address of the shard of its PE."""

from __future__ import annotations

from typing import Any

from kernbench.common.dtypes import dtype_of


class DevicePointer(int):
    """The address of a tensor's shard for one PE. Arithmetic on a pointer gives plain addresses."""

    name: str  #: of the tensor
    shape: tuple[int, ...]  #: of the shard; of the whole tensor where it is not sharded
    dtype: str
    tensor_shape: tuple[int, ...]
    window: int  #: first address of the whole tensor, whose shards are consecutive, PE by PE
    shard: Any  #: `policy.placement.Shard`: the shard; None if the tensor is not sharded

    def __new__(
        cls,
        address: int,
        *,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        tensor_shape: tuple[int, ...],
        window: int,
        shard: Any = None,
    ) -> DevicePointer:
        made = super().__new__(cls, address)
        made.name, made.shape, made.dtype = name, shape, dtype
        made.tensor_shape, made.window, made.shard = tensor_shape, window, shard
        return made

    @property
    def itemsize(self) -> int:
        """Bytes from one element to the next; 1 where elements are packed."""
        return dtype_of(self.dtype).align

    def __repr__(self) -> str:
        return f"DevicePointer({int(self):#x}, {self.name or 'tensor'} {self.shape} {self.dtype})"
