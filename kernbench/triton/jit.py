"""`@triton.jit`: kernels, which are launched, and device functions, which kernels call."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from kernbench.common.pointers import DevicePointer
from kernbench.triton.arguments import TypedPointer, mapped
from kernbench.triton.block_pointers import made_on_host
from kernbench.triton.control import IN_KERNELS
from kernbench.triton.dtypes import TritonError, float32
from kernbench.triton.program import Options, Program, enter, running
from kernbench.triton.tensor import number_tensor, pointer
from kernbench.triton.tools.tensor_descriptor import TensorDescriptor
from kernbench.triton_emu.tl.context import TLContext

#: Runs kernels on machines. It stands above this package, which knows it by name alone (docs/adr/0024-triton-language.md).
RUNTIME = "kernbench.runtime_api.triton.run"
#: Arguments of launches that say how a GPU runs a kernel.
HINTS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "waves_per_eu", "matrix_instr_nonkdim", "kpack")


class JITFunction:
    """A kernel or device function. `kernel[grid](...)` runs it on the default machine, or that of `kernbench.machine`."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = _with_names(fn)
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__module__, self.__doc__ = fn.__module__, fn.__doc__
        self.__signature__ = _CALLED
        self.parameters = inspect.signature(fn).parameters
        self.arg_names = list(self.parameters)
        self.constexprs = frozenset(name for name, one in self.parameters.items() if _is_constexpr(one.annotation))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A device function that is a method."""
        return self if instance is None else partial(self, instance)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """`kernel[grid](*args, **meta)`; `grid` is a number, a tuple, or a function of all arguments by name."""
        return lambda *args, **kwargs: self.run(grid, args, kwargs)

    def run(self, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Launch it; returns the run."""
        bound, hints = self.bind(args, kwargs)
        return import_module(RUNTIME).run_kernel(self, sizes_of(grid, bound), bound, hints)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """All arguments by name, and the hints among them. TritonError if they are not the kernel's."""
        hints = {name: value for name, value in kwargs.items() if name in HINTS and name not in self.parameters}
        given = {name: value for name, value in kwargs.items() if name not in hints}
        try:
            bound = inspect.signature(self.fn).bind(*args, **given)
        except TypeError as error:
            raise TritonError(f"{self.__name__}: {error}; it takes {', '.join(self.arg_names)}") from None
        bound.apply_defaults()
        return dict(bound.arguments), hints

    def __call__(self, *args: Any, tl: TLContext | None = None, **kwargs: Any) -> Any:
        """From a kernel: the function itself. From a launch, which gives `tl`: a program of it."""
        if running() is not None and tl is None:
            return self.fn(*args, **kwargs)
        if tl is None:
            raise TritonError(f"{self.__name__} is a kernel; launch it by {self.__name__}[grid](...)")
        return self.program(tl, Options(), self.bind(args, kwargs)[0])

    def launched(self, options: Options) -> Callable[..., Any]:
        """The kernel of one launch of a bench, whose programs share options."""

        def program(*args: Any, tl: TLContext, **kwargs: Any) -> Any:
            return self.program(tl, options, self.bind(args, kwargs)[0])

        wraps(self.fn)(program)
        program.__signature__ = _CALLED  # type: ignore[attr-defined]
        return program

    def program(self, tl: TLContext, options: Options, arguments: Mapping[str, Any]) -> Any:
        """Run one program in the greenlet of `tl`."""
        enter(Program.of(tl, options, self.__name__))
        return self.fn(**{name: self._argument(name, value) for name, value in arguments.items()})

    def _argument(self, name: str, value: Any) -> Any:
        if name in self.constexprs or value is None or isinstance(value, str):
            return value
        if isinstance(value, DevicePointer):
            return pointer(value)
        if isinstance(value, TypedPointer):
            return pointer(*value)
        if isinstance(value, tuple):
            return mapped(value, lambda one: self._argument(name, one))
        if isinstance(value, TensorDescriptor):
            base = self._argument(name, value.base)
            return made_on_host(base, value.shape, value.strides, value.block_shape, value.padding, value.round_f32_to_tf32)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float):
            return number_tensor(value, float32)
        return number_tensor(value) if isinstance(value, bool | int) else value


_CALLED = inspect.signature(lambda *args, tl=None, **kwargs: None)  # of a call: `__get__` would hide it from who asks


def _with_names(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `range`, `min`, `max` and `print` as kernels mean them. A function keeps the names of Python that its
    globals had when it was made."""
    if not isinstance(fn, FunctionType):
        return fn
    names = fn.__globals__
    kept = names.get("__builtins__", builtins)
    names["__builtins__"] = {**vars(builtins), **IN_KERNELS}
    try:
        made = FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, fn.__closure__)
    finally:
        names["__builtins__"] = kept
    made.__kwdefaults__, made.__qualname__, made.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    made.__annotations__, made.__doc__ = fn.__annotations__, fn.__doc__
    made.__dict__.update(fn.__dict__)
    return made


def _is_constexpr(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rpartition(".")[2] == "constexpr"


def sizes_of(grid: Any, arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """A grid as integers. TritonError for one that is none."""
    found = grid(dict(arguments)) if callable(grid) else grid
    parts = tuple(found) if isinstance(found, tuple | list) else (found,)
    sizes = tuple(int(one) for one in parts if isinstance(one, int | np.integer) and not isinstance(one, bool))
    if not 1 <= len(parts) <= 3 or len(sizes) != len(parts) or min(sizes) < 1:
        raise TritonError(f"a grid is one to three integers of at least 1, and not {parts}")
    return sizes


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel or device function of a Python function. Options of the compiler are ignored."""
    if fn is None:
        return lambda given: JITFunction(given)
    return JITFunction(fn)
