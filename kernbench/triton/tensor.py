"""`tensor`: the values that kernels compute with. Integers are known in Phase 1; floats are computed in Phase 2."""

from __future__ import annotations

from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.pointers import DevicePointer
from kernbench.triton.constants import plain
from kernbench.triton.dtypes import dtype, int32, of_number, of_own, pointer_type, refusal, refuse, uint64
from kernbench.triton.program import current
from kernbench.triton_emu.handle import KernelTensor


class Length(int):
    """The length of an axis, or a number of elements. In Triton it is a `constexpr`, so it has a `value`."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The length as a plain integer."""
        return int(self)


class Shape(tuple[int, ...]):
    """The lengths of the axes. A Shape is equal to a list of the same lengths and can be joined with lists, as in Triton.

    `shape[i]` is a Length. Iteration gives plain integers.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Shape(found) if isinstance(index, slice) else Length(found)

    def __add__(self, other: Any) -> Any:
        return Shape((*self, *other))

    def __radd__(self, other: Any) -> Any:
        return Shape((*other, *self))


class tensor:
    """Elements of one type in a shape. A tensor with a `base` holds pointers into that tensor in memory."""

    __array_ufunc__ = None
    takes_constants = True  #: the operators of `tl.constexpr` are left to those of tensors

    def __init__(
        self, handle: KernelTensor | None, kind: dtype, base: DevicePointer | None = None, swapped: tensor | None = None
    ) -> None:
        """Make a tensor. With `swapped` instead of a handle, it is the transpose of that matrix; a product reads the matrix
        itself.
        """
        self._handle = handle
        self.swapped = swapped
        self.dtype = kind
        self.base = base  #: of pointers: which tensor they point into

    @property
    def type(self) -> dtype:
        """The type of an element."""
        return self.dtype

    @property
    def handle(self) -> KernelTensor:
        """The tile of the tensor. A transpose is computed only when something other than a product needs it."""
        if self._handle is None:
            assert self.swapped is not None
            self._handle = current().compute("permute", [self.swapped.handle, 1, 0], self.shape, self.dtype)
            self.swapped = None
        return self._handle

    @property
    def shape(self) -> Shape:
        return Shape(self.handle.shape if self.swapped is None else self.swapped.shape[::-1])

    @property
    def numel(self) -> int:
        tile = self._handle
        return Length(prod(self.shape if tile is None else tile.shape))

    @property
    def element_ty(self) -> dtype:
        """The type of the elements to which the pointers point."""
        if not isinstance(self.dtype, pointer_type):
            refuse(f"a tensor of {self.dtype} has no element_ty; element_ty exists only for pointers")
        return self.dtype.element_ty

    @property
    def known(self) -> Array | None:
        """The known elements, or None.

        Known are integers that do not depend on floats, and a single loaded element. Reading this property waits for a load of
        integers. Blocks of floats are left to the engines.
        """
        if self.dtype.is_floating() and self.numel != 1:
            return None
        tile = self.handle
        if tile.value is None and tile.flight is not None and tile.op == "dma_read":
            current().wait(tile)
        return tile.value

    def elements(self, what: str) -> Array:
        """Return the elements. If the elements are computed after the timing, raise TritonError."""
        found = self.known
        if found is None:
            refuse(
                f"{what} must be known, but comes after the timing, from {self.handle.op or 'a kernel'} ({self.handle.line}); "
                "use tl.where, or known values: arguments, integers, and single elements loaded from memory"
            )
        return found

    # One element.

    def _one(self, what: str) -> Any:
        if self.numel != 1:
            refuse(f"{what} of a tensor of shape {list(self.shape)} is not one value; use tl.where, or reduce it first")
        found = self.elements(what).reshape(-1)[0].item()
        return found + (1 << 64) if self.dtype == uint64 and found < 0 else found

    def __bool__(self) -> bool:
        tile = self._handle
        if tile is not None and tile.value is not None and tile.value.size == 1:
            return bool(tile.value.item())
        path = current().path
        if path is not None and (self.numel != 1 or self.known is None):
            return bool(path.decide(self))
        return bool(self._one("the truth value"))

    def __int__(self) -> int:
        return int(self._one("the value"))

    def __index__(self) -> int:
        if self.dtype.is_floating() or self.base is not None:
            refuse(f"an integer is expected, but this is {self.dtype}")
        return int(self._one("the value"))

    def __float__(self) -> float:
        return float(self._one("the value"))

    def __iter__(self) -> Any:
        refuse("Python code cannot iterate over a tensor; use tl.static_range and tl.load")

    def __len__(self) -> int:
        if current().options.portable:
            refuse("len of a tensor is not defined in Triton; use x.shape[0]")
        return self.shape[0] if self.shape else 0

    def __repr__(self) -> str:
        value = self.handle.value
        shown = "..." if value is None or value.size > 8 else str(value.tolist())
        return f"{self.dtype}{list(self.shape)}({shown})"

    # Shapes.

    def __getitem__(self, index: Any) -> tensor:
        """Insert axes: `x[:, None]`. As in Triton, a colon past the last axis is ignored, and axes without an index stay."""
        parts = index if isinstance(index, tuple) else (index,)
        shape, left = [], list(self.shape)
        for one in parts:
            if one is None:
                shape.append(1)
            elif isinstance(one, slice) and one == slice(None):
                shape += [left.pop(0)] if left else []
            else:
                refuse(f"unsupported tensor index {one!r}: it is : or None; use tl.gather or tl.load")
        return self.reshaped((*shape, *left))

    def reshaped(self, shape: tuple[int, ...]) -> tensor:
        """Return the same elements in another shape, which takes no cycles."""
        return tensor(current().alias(self.handle, shape), self.dtype, self.base)

    @property
    def T(self) -> tensor:
        return _function("trans")(self)  # type: ignore[no-any-return]

    def to(self, dtype: dtype, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> tensor:
        """Return the elements as another type: the same as `tl.cast`."""
        return _function("cast")(self, dtype, fp_downcast_rounding, bitcast)  # type: ignore[no-any-return]

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # made below, a line each

        def __add__(self, other: Any) -> tensor: ...
        def __sub__(self, other: Any) -> tensor: ...
        def __rsub__(self, other: Any) -> tensor: ...
        def __mul__(self, other: Any) -> tensor: ...
        def __truediv__(self, other: Any) -> tensor: ...
        def __lt__(self, other: Any) -> tensor: ...
        def __neg__(self) -> tensor: ...

    def item(self) -> tensor:
        """Return the only element, as a tensor without axes."""
        if self.numel != 1:
            refuse(f"item() of a tensor of shape {list(self.shape)}, which has {self.numel} elements; reduce it first")
        return self.reshaped(())

    # Functions of `tl` that are also methods of tensors: tl.sum(x) is also x.sum().

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            function = _function(name)
            return lambda *args, **kwargs: function(self, *args, **kwargs)
        raise AttributeError(f"a tensor of triton.language has no {name}")


FUNCTIONS: dict[str, Any] = {}  #: functions of the language that methods and operators call, by name
# fmt: off
METHODS = frozenset({
    "abs", "advance", "argmax", "argmin", "associative_scan", "atomic_add", "atomic_and", "atomic_cas", "atomic_load",
    "atomic_max", "atomic_min", "atomic_or", "atomic_poll", "atomic_store", "atomic_xchg", "atomic_xor", "broadcast_to",
    "cast", "cdiv", "ceil", "cos", "cumprod", "cumsum", "erf", "exp", "exp2", "expand_dims", "flip", "floor", "gather",
    "histogram", "log", "log2", "logical_and", "logical_or", "max", "min", "permute", "ravel", "reduce", "reduce_or",
    "reshape", "rsqrt", "sigmoid", "sin", "softmax", "sort", "split", "sqrt", "sqrt_rn", "store", "sum", "trans", "view",
    "xor_sum",
})
# fmt: on


def _function(name: str) -> Any:
    return FUNCTIONS[name]


def _operator(name: str, swapped: bool = False) -> Any:
    def method(self: tensor, other: Any) -> tensor:
        first, second = (other, self) if swapped else (self, other)
        return FUNCTIONS["binary"](name, first, second)  # type: ignore[no-any-return]

    return method


# fmt: off
_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "truediv", "floordiv": "floordiv", "mod": "mod", "and": "and",
    "or": "or", "xor": "xor", "lshift": "shl", "rshift": "shr",
}
# fmt: on
for _name, _op in _OPERATORS.items():
    setattr(tensor, f"__{_name}__", _operator(_op))
    setattr(tensor, f"__r{_name}__", _operator(_op, swapped=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(tensor, f"__{_name}__", _operator(_name))
for _name in ("neg", "invert"):
    setattr(tensor, f"__{_name}__", lambda self, _op=_name: FUNCTIONS["unary"](_op, self))


def number_tensor(value: Any, kind: dtype | None = None) -> tensor:
    """Return a number as a tensor without axes."""
    if kind is None and type(value) is int:
        found, own = _of_integer(value)
        return tensor(current().known(own, found), found)
    found = of_number(value) if kind is None else kind
    own = _elements_of(value, found)
    return tensor(current().known(own, found), found)


@lru_cache(maxsize=4096)
def _of_integer(value: int) -> tuple[dtype, Array]:
    """Return the type that Triton gives to an integer, and its element."""
    kind = of_number(value)
    own = _elements_of(value, kind)
    own.flags.writeable = False
    return kind, own


def _elements_of(value: Any, kind: dtype) -> Array:
    """Return a number as an array without axes, in the element type of the machine."""
    bits = kind == uint64
    own: Any = np.asarray(int(value) & (1 << 64) - 1, np.uint64) if bits else np.asarray(value)
    return own.astype(_numpy(kind.own))  # type: ignore[no-any-return]


def as_tensor(value: Any) -> tensor:
    """Return a tensor unchanged, or a number as a tensor."""
    if isinstance(value, tensor):
        return value
    value = plain(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float):
        return number_tensor(value)
    raise refusal(f"a tensor or a number is needed, not a {type(value).__name__}")


def known_tensor(values: Array, kind: dtype = int32) -> tensor:
    """Return a tensor of known elements."""
    return tensor(current().known(values.astype(_numpy(kind.own), order="C"), kind), kind)


def pointer(address: DevicePointer, element: dtype | None = None, const: bool = False) -> tensor:
    """Return the pointer to the first element of a tensor argument. `element` replaces the element type of the tensor."""
    kind = pointer_type(element or of_own(address.dtype), const=const)
    return tensor(current().known(np.asarray(int(address), np.int64), kind), kind, address)


@cache
def _numpy(own: str) -> Any:
    return dtype_of(own).numpy
