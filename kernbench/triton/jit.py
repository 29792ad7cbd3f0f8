"""`@triton.jit`: kernels, which the host launches, and device functions, which kernels call."""

from __future__ import annotations

import builtins
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, wraps
from hashlib import sha256
from importlib import import_module
from itertools import count
from types import FunctionType
from typing import Any

import numpy as np

from kernbench.common.pointers import DevicePointer
from kernbench.triton.arguments import TypedPointer, mapped
from kernbench.triton.block_pointers import made_on_host
from kernbench.triton.constants import plain
from kernbench.triton.control import IN_KERNELS
from kernbench.triton.dtypes import CANONICAL, TritonError, dtype, float32, str_to_ty
from kernbench.triton.literals import returned, with_tensors
from kernbench.triton.portable import BUILTINS, check_names, undefined_builtin
from kernbench.triton.program import Options, Program, enter, running
from kernbench.triton.scopes import with_checks
from kernbench.triton.tensor import number_tensor, pointer
from kernbench.triton.tools.tensor_descriptor import TensorDescriptor
from kernbench.triton.variables import undefined
from kernbench.triton_emu.tl.context import TLContext

#: The package that runs kernels on machines. It is above this package, so this package imports it by name
#: (docs/adr/0024-triton-language.md).
RUNTIME = "kernbench.runtime_api.triton.run"
#: Arguments of launches that say how a GPU runs a kernel.
HINTS = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "waves_per_eu", "matrix_instr_nonkdim", "kpack",
    "launch_pdl", "launch_cooperative_grid", "extern_libs", "debug", "sanitize_overflow", "minRegAutoWS", "maxRegAutoWS",
    "schedule_hint", "allow_flush_denorm", "instrumentation_mode", "ptx_options", "disable_warp_specialize", "pingpongAutoWS",
    "arch", "ir_override", "enable_reflect_ftz",
)  # fmt: skip
#: Hints that change no numbers. They need no note, because kernbench always does what they request.
ALWAYS = ("launch_cooperative_grid", "debug")


class KernelInterface:
    """An object that `kernel[grid](...)` launches."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a launcher for a grid: `kernel[grid](*args, **meta)`.

        Parameters
        ----------
        grid
            The number of programs along each axis: an integer, a tuple of one to three integers, or a function. The function
            gets all arguments in a dict and returns the integer or the tuple.
        """
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Return a CompiledKernel, and run nothing. The parameters are the parameters of a launch, and `grid`."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)


class Metadata:
    """The `metadata` of a compiled kernel: name and launch options. The scratchpad size of a PE is given as shared memory [B].
    """

    def __init__(self, **found: Any) -> None:
        self.__dict__.update(found)

    def _asdict(self) -> dict[str, Any]:
        return dict(self.__dict__)


class _NoAssembly(dict[str, str]):
    """The `asm` of a kernel, which is always empty."""

    def __missing__(self, key: str) -> str:
        raise TritonError(f'asm["{key}"]: kernels run as Python, so there is no compiled code')


class CompiledKernel(KernelInterface):
    """The result of `kernel.warmup`, and `compiled` of a run. A program has a PE to itself, with all registers and the whole
    scratchpad of the PE.
    """

    def __init__(self, kernel: JITFunction, constants: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
        properties = import_module(RUNTIME).device_properties()
        self.kernel, self.constants, self.hints = kernel, dict(constants), dict(hints)
        self.name = str(kernel.__name__)
        warps = int(hints.get("num_warps") or 4)
        self.n_regs: int = max(1, properties["max_num_regs"] // warps)
        self.n_spills = 0
        self.n_max_threads = warps
        stages, clusters = int(hints.get("num_stages") or 3), int(hints.get("num_ctas") or 1)
        self.metadata = Metadata(
            name=self.name, num_warps=warps, num_stages=stages, num_ctas=clusters, shared=properties["max_shared_mem"]
        )
        self.asm: dict[str, str] = _NoAssembly()

    def _init_handles(self) -> None:
        """Do nothing, because all fields are set already."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch the kernel. Constants that the launch does not give have the values that `warmup` got."""
        given = {*self.kernel.arg_names[: len(args)], *kwargs}
        more = {name: value for name, value in self.constants.items() if name not in given}
        return self.kernel.run(*args, grid=grid, warmup=warmup, **{**self.hints, **more, **kwargs})


class KernelParam:
    """A parameter of a kernel with its position, as Triton describes it."""

    def __init__(self, num: int, param: inspect.Parameter) -> None:
        self.num, self.name, self.default = num, param.name, param.default
        self.is_constexpr, self.is_const = _is_marked(param.annotation, "constexpr"), _is_marked(param.annotation, "const")
        self.annotation = "" if param.annotation is inspect.Parameter.empty else str(param.annotation)
        self.do_not_specialize = self.do_not_specialize_on_alignment = False


class JITFunction(KernelInterface):
    """A kernel or device function.

    `kernel[grid](...)` runs the kernel on the default machine, or on the machine of the enclosing `kernbench.machine` block.
    """

    def __init__(
        self, fn: Callable[..., Any], version: Any = None, do_not_specialize: Any = None,
        do_not_specialize_on_alignment: Any = None, debug: Any = None, noinline: Any = None,
        repr: Callable[[Any], str] | None = None, launch_metadata: Any = None,
    ) -> None:  # fmt: skip
        """Keep the options, which are for Triton's compiler and have no effect here."""
        self.version, self.debug, self.noinline, self.launch_metadata = version, debug, noinline, launch_metadata
        self.do_not_specialize = do_not_specialize or []
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment or []
        self.repr = repr or (lambda _: self.__name__)
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self._take(fn.original if isinstance(fn, JITFunction) else fn)

    def _take(self, fn: Callable[..., Any]) -> None:
        """Make this object the kernel of a function."""
        self.original: Callable[..., Any] = fn
        self.fn = _with_names(fn)
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__module__, self.__doc__ = fn.__module__, fn.__doc__
        self.__signature__ = _CALLED
        self.parameters = inspect.signature(fn).parameters
        self.arg_names = list(self.parameters)
        self.params = [KernelParam(number, one) for number, one in enumerate(self.parameters.values())]
        #: Parameters that are pointers to what is not written.
        self.consts = frozenset(name for name, one in self.parameters.items() if _is_marked(one.annotation, "const"))
        #: Types of parameters whose annotation names a type of numbers.
        kinds = {name: _number_of(one.annotation) for name, one in self.parameters.items()}
        self._numbers = {name: kind for name, kind in kinds.items() if kind is not None}
        self._portable: Callable[..., Any] | None = None  #: the function with the checks of `portable`
        code = inspect.unwrap(fn).__code__
        self.file_name, self.starting_line_number = code.co_filename, code.co_firstlineno
        self.def_file_line_number, self.def_file_col_number = code.co_firstlineno, 0
        self.constexprs = frozenset(name for name, one in self.parameters.items() if _is_marked(one.annotation, "constexpr"))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the device function for a call as a method."""
        return self if instance is None else partial(self, instance)

    @property
    def src(self) -> str:
        """The source text without decorators."""
        text = textwrap.dedent(inspect.getsource(self.original))
        return text[text.index("def ") :] if "def " in text else text

    @cached_property
    def cache_key(self) -> str:
        """A digest of the source text and of the place of the function."""
        text = "\0".join((self.src, self.file_name, str(self.starting_line_number)))
        return sha256(text.encode()).hexdigest()

    @cached_property
    def raw_src(self) -> list[str]:
        """The lines of the source, with decorators."""
        return inspect.getsourcelines(self.original)[0]

    def get_capture_scope(self) -> dict[str, Any]:
        """Return the globals of the function, and the variables of enclosing functions that the function uses."""
        code, cells = self.original.__code__, self.original.__closure__ or ()
        around = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
        return {**self.original.__globals__, **around}

    def is_gluon(self) -> bool:
        """Return whether it is a kernel of Gluon."""
        return False

    def _unsafe_update_src(self, source: str) -> None:
        """Make this object the kernel of another source text, with the same globals."""
        names = self.original.__globals__
        name = f"<source of {self.__name__}, {next(_SOURCES)}>"
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        exec(compile(source, name, "exec"), names)
        self._take(names[self.__name__])

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook` with the arguments of each launch, before the launch."""
        self.pre_run_hooks.append(hook)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch the kernel and return the run. With `warmup`, run nothing and return a CompiledKernel."""
        bound, hints = self.bind(args, kwargs)
        if warmup:
            return CompiledKernel(self, {name: bound[name] for name in self.arg_names if name in self.constexprs}, hints)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        return import_module(RUNTIME).run_kernel(self, sizes_of(grid, bound), bound, hints)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return all arguments by name, and the hints that were among them.

        Raises TritonError if the arguments do not match the parameters of the kernel.
        """
        hints = {name: value for name, value in kwargs.items() if name in HINTS and name not in self.parameters}
        given = {name: value for name, value in kwargs.items() if name not in hints}
        try:
            bound = inspect.signature(self.fn).bind(*args, **given)
        except TypeError as error:
            raise TritonError(f"{self.__name__}: {error}; the parameters are {', '.join(self.arg_names)}") from None
        bound.apply_defaults()
        return {name: plain(value) for name, value in bound.arguments.items()}, hints

    def __call__(self, *args: Any, tl: TLContext | None = None, **kwargs: Any) -> Any:
        """Call the function from a kernel; with `tl`, which only a launch gives, run one program.

        Raises TritonError if the host calls a kernel directly. Launch it with `kernel[grid](...)`.
        """
        around = running()
        if around is not None and tl is None:
            return returned(self._call(around.options, *args, **kwargs))
        if tl is None:
            raise TritonError(
                f"{self.__name__} is a kernel, which the host cannot call directly; launch it with {self.__name__}[grid](...)"
            )
        return self.program(tl, Options(), self.bind(args, kwargs)[0])

    def _call(self, options: Options, *args: Any, **kwargs: Any) -> Any:
        """Call the function. With `portable`, raise CompilationError for what Triton's compiler does not accept."""
        if not options.portable:
            return self.fn(*args, **kwargs)
        if self._portable is None:
            check_names(self.fn)
            file = self.file_name.rpartition("/")[2]
            self._portable = _with_names(self.original, partial(with_checks, file), BUILTINS)
        try:
            return self._portable(*args, **kwargs)
        except NameError as error:
            name = self._portable.__name__
            found = undefined(name, error) if isinstance(error, UnboundLocalError) else undefined_builtin(error)
            if found is None:
                raise
            raise found from None

    def launched(self, options: Options) -> Callable[..., Any]:
        """Return the kernel for one launch of a bench; all programs of the launch share the options."""

        def program(*args: Any, tl: TLContext, **kwargs: Any) -> Any:
            return self.program(tl, options, self.bind(args, kwargs)[0])

        wraps(self.fn)(program)
        program.__signature__ = _CALLED  # type: ignore[attr-defined]
        return program

    def program(self, tl: TLContext, options: Options, arguments: Mapping[str, Any]) -> Any:
        """Run one program in the greenlet of `tl`."""
        enter(Program.of(tl, options, self.__name__))
        return self._call(options, **{name: self._argument(name, value) for name, value in arguments.items()})

    def _argument(self, name: str, value: Any) -> Any:
        if name in self.constexprs or value is None or isinstance(value, str):
            return value
        if isinstance(value, DevicePointer):
            return pointer(value, const=name in self.consts)
        if isinstance(value, TypedPointer):
            return pointer(*value, const=name in self.consts)
        if isinstance(value, tuple):
            return mapped(value, lambda one: self._argument(name, one))
        if isinstance(value, TensorDescriptor):
            base = self._argument(name, value.base)
            sizes = value.shape, value.strides, value.block_shape
            return value.in_kernel(made_on_host(base, *sizes, value.padding, value.round_f32_to_tf32))
        if isinstance(value, np.generic):
            value = value.item()
        if name in self._numbers and isinstance(value, int | float):
            return number_tensor(value, self._numbers[name])
        if isinstance(value, float):
            return number_tensor(value, float32)
        return number_tensor(value) if isinstance(value, bool | int) else value


_SOURCES = count()  # numbers for kernels that were made from a text
_CALLED = inspect.signature(lambda *args, tl=None, **kwargs: None)  # of a call: `__get__` would hide it from other code


def _with_names(fn: Callable[..., Any], change: Any = None, only: Sequence[str] = ()) -> Callable[..., Any]:
    """Return a copy of the function in which `range`, `min`, `max` and `print` have their meaning in kernels.

    `only`: the builtins that the copy has; without it, all. A function keeps the builtins that its globals had when the
    function was made, so a copy is necessary.
    """
    if not isinstance(fn, FunctionType):
        return fn
    fn = with_tensors(fn, change)
    names = fn.__globals__
    kept = names.get("__builtins__", builtins)
    found = {**vars(builtins), **IN_KERNELS}
    names["__builtins__"] = {name: found[name] for name in only} if only else found
    try:
        made = FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, fn.__closure__)
    finally:
        names["__builtins__"] = kept
    made.__kwdefaults__, made.__qualname__, made.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    made.__annotations__, made.__doc__ = fn.__annotations__, fn.__doc__
    made.__dict__.update(fn.__dict__)
    return made


def _is_marked(annotation: Any, mark: str) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rpartition(".")[2] == mark


def _number_of(annotation: Any) -> dtype | None:
    """Return the type that an annotation gives to a number: a type of the language, or its name, such as `fp64` or `int64`."""
    if isinstance(annotation, str):
        found = CANONICAL.get(annotation.strip("'\"").rpartition(".")[2])
        return None if found is None else str_to_ty(found)
    return annotation if isinstance(annotation, dtype) and not annotation.is_ptr() else None


def sizes_of(grid: Any, arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the sizes of a grid as integers. A grid that is not valid raises TritonError."""
    found = plain(grid(dict(arguments)) if callable(grid) else grid)
    parts = tuple(found) if isinstance(found, tuple | list) else (found,)
    parts = tuple(plain(one) for one in parts)
    sizes = tuple(int(one) for one in parts if isinstance(one, int | np.integer) and not isinstance(one, bool))
    if not 1 <= len(parts) <= 3 or len(sizes) != len(parts) or min(sizes) < 0:
        raise TritonError(f"the grid {parts} is not valid; it must be one to three integers of at least 0")
    return sizes


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel or a device function from a Python function.

    Parameters
    ----------
    fn
        The function. Without it, `jit` returns a decorator.
    options
        Options of Triton's compiler, which are accepted and have no effect.

    Example
    -------
    >>> @triton.jit
    ... def double(x, y, n, BLOCK: tl.constexpr):
    ...     at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...     tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)
    >>> double[(4,)](x, y, 1000, BLOCK=256)
    """
    return made_as(JITFunction, fn, options)


def made_as(kind: type[JITFunction], fn: Callable[..., Any] | None, options: Mapping[str, Any]) -> Any:
    """Make a kernel of a class; without a function, return a decorator."""
    known = {name: value for name, value in options.items() if name in _OPTIONS}
    if fn is None:
        return lambda given: kind(given, **known)
    return kind(fn, **known)


_OPTIONS = frozenset(inspect.signature(JITFunction.__init__).parameters) - {"self", "fn"}
