"""`autotune` selects the configuration with the fewest simulated cycles; `heuristics` computes constants from arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from kernbench.common.dtypes import Array
from kernbench.triton.arguments import arrays_in
from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import RUNTIME, JITFunction, KernelInterface
from kernbench.triton_emu.errors import ScratchpadFullError


class Config:
    """Values for the constants of a kernel, with hints for GPUs, which are ignored unless the kernel has such a parameter.

    `pre_hook` is a function that gets all arguments of a launch in a dict. The tuner calls this function before each launch of
    the configuration: before the measurement, and before every later launch if the configuration was selected.
    """

    def __init__(
        self, kwargs: Mapping[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None, ir_override: Any = None,
    ) -> None:  # fmt: skip
        self.ir_override = ir_override
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """Return all arguments that the configuration adds to a launch: its constants, and the hints that are not None."""
        hints = {name: getattr(self, name) for name in ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")}
        return {**self.kwargs, **{name: value for name, value in hints.items() if value is not None}}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return (self.all_kwargs(), self.pre_hook) == (other.all_kwargs(), other.pre_hook)

    def __hash__(self) -> int:
        return hash((frozenset(self.all_kwargs()), self.pre_hook))

    def __repr__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())


class _Wrapped(KernelInterface):
    """A kernel whose launches get additional arguments."""

    def __init__(self, fn: Any, arg_names: Sequence[str]) -> None:
        self.fn = fn
        self.arg_names = list(arg_names)
        self.base: JITFunction = fn.base if isinstance(fn, _Wrapped) else fn
        self.base_fn = self.base.fn
        self.__name__ = self.base.__name__

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a launch by name."""
        return {**dict(zip(self.base.arg_names, args, strict=False)), **kwargs}


class Heuristics(_Wrapped):
    """A kernel some of whose constants are computed from the arguments of the launch."""

    def __init__(self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(fn, arg_names)
        self.values = dict(values)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        for name, compute in self.values.items():
            kwargs[name] = compute(self.named(args, kwargs))
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)


class Autotuner(_Wrapped):
    """A kernel that is launched with the configuration of the fewest cycles.

    The configuration is selected once for each machine and for each combination of values of the key arguments. Methods and
    fields have Triton's names, so that programs can derive classes. Hooks are called in Triton's order: before a measurement
    the `pre_hook` of the configuration and then that of the tuner, after the measurement the `post_hook` of the tuner.
    """

    def __init__(
        self, fn: Any, arg_names: Sequence[str], configs: Sequence[Config], key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None, restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., Any] | None = None, post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None, warmup: Any = None, rep: Any = None, use_cuda_graph: bool = False,
        do_bench: Any = None, cache_results: bool = False,
    ) -> None:  # fmt: skip
        """Make the tuner. Cycles do not vary, so the last five parameters from `warmup` on have no effect."""
        super().__init__(fn, arg_names)
        self.configs = list(configs) or [Config({})]
        self.keys = list(key)
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.restore_copies: dict[str, list[Array]] = {}
        self._restore_all = restore_value is None
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook: Callable[..., Any] = self._before if pre_hook is None else pre_hook
        self.post_hook: Callable[..., Any] = self._after if post_hook is None else post_hook
        prune = dict(prune_configs_by or {})
        self.perf_model, self.configs_top_k = prune.get("perf_model"), prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.cache_results = cache_results
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self.cache: dict[tuple[Any, ...], Config] = {}
        self._not_reset: set[tuple[Any, ...]] = set()  #: keys of selections that no launch has followed
        self.nargs: dict[str, Any] | None = None
        self.best_config: Config | None = None
        self.timings: list[tuple[Config, int | None]] = []  #: cycles of each that was simulated; None: it could not run
        self.configs_timings: dict[Config, float] = {}  #: the same in milliseconds, as Triton has them
        self.bench_time: float | None = None

    @property
    def key(self) -> list[str]:
        return self.keys

    def run(self, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
        given = self.named(args, kwargs)
        self.nargs = dict(zip(self.base.arg_names, args, strict=False))
        key = (
            _machine_name(),
            *(_key_of(given.get(name)) for name in self.keys),
            *(_kind_of(one) for one in given.values()),
        )
        note = ""
        if key not in self.cache:
            configs = self.prune_configs(kwargs)
            if not warmup and not import_module(RUNTIME).machine_tunes():
                return self._first(key, configs, grid, args, kwargs)
            self.cache[key], note = self._best(configs, grid, args, kwargs, given)
            if len(configs) > 1:
                self._not_reset.add(key)
        self.best_config = best = self.cache[key]
        if warmup:
            made = self._launch(best, grid, args, kwargs, warmup=True)
        else:
            made = self._final(best, grid, args, kwargs, reset=key in self._not_reset)
            self._not_reset.discard(key)
            if note:
                made.notes.insert(0, note)
        self.nargs = None
        return made

    def _first(
        self, key: tuple[Any, ...], configs: Sequence[Config], grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Launch the first configuration that fits into the scratchpad, and keep it."""
        full: ScratchpadFullError | None = None
        for config in self._apart(configs):
            try:
                made = self._final(config, grid, args, kwargs, reset=len(configs) > 1)
            except ScratchpadFullError as error:
                full = error
                continue
            self.cache[key] = self.best_config = config
            self.nargs = None
            return made
        assert full is not None
        raise full

    def _tensors(self, option: str, name: str, nargs: Mapping[str, Any]) -> list[Array]:
        """Return the arrays of an argument that `reset_to_zero` or `restore_value` names. The argument may be None."""
        value = nargs.get(name)
        arrays = [array for _, array in arrays_in(name, value)]
        if not arrays and (name not in nargs or value is not None):
            what = f"is {value!r}" if name in nargs else "is not an argument of the launch"
            raise TritonError(f"autotune of {self.__name__}: {option} names {name}, which {what}; name only tensors and None")
        return arrays

    def _before(self, nargs: Mapping[str, Any], reset_only: bool = False) -> None:
        """Set the tensors of `reset_to_zero` to 0. Keep copies of those of `restore_value`, unless `reset_only` is true."""
        for name in self.reset_to_zero:
            for array in self._tensors("reset_to_zero", name, nargs):
                array[...] = 0
        if not reset_only:
            self.restore_copies = {
                name: [array.copy() for array in self._tensors("restore_value", name, nargs)] for name in self.restore_value
            }

    def _after(self, nargs: Mapping[str, Any], exception: Exception | None) -> None:
        """Give the tensors of `restore_value` the values that they had before the measurement."""
        for name, copies in self.restore_copies.items():
            _restore(self._tensors("restore_value", name, nargs), copies)
        self.restore_copies = {}

    def _check_options(self, nargs: Mapping[str, Any]) -> None:
        """Raise TritonError if the tuner's own hooks cannot do what `reset_to_zero` and `restore_value` request."""
        if not self.user_defined_pre_hook:
            for name in self.reset_to_zero:
                self._tensors("reset_to_zero", name, nargs)
            for name in self.restore_value:
                self._tensors("restore_value", name, nargs)
        elif self.restore_value and not self.user_defined_post_hook:
            raise TritonError(
                f"autotune of {self.__name__}: restore_value has no copies to restore, because pre_hook takes the place of the "
                "function that makes them; leave pre_hook out, or restore the tensors in a post_hook"
            )

    def _merged(self, config: Config, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a launch with a configuration."""
        twice = sorted(set(config.kwargs) & set(kwargs))
        if twice:
            raise TritonError(f"{self.__name__}: {', '.join(twice)} is set by autotune; leave it out of the launch")
        return {**kwargs, **config.all_kwargs()}

    def _for_hooks(self, config: Config, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what hooks get: all arguments of a launch by name, with those of the configuration, and the grid."""
        return self.named(args, {"grid": grid, "warmup": False, **self._merged(config, kwargs)})

    def _launch(self, config: Config, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], warmup: bool = False) -> Any:
        return self.fn.run(*args, grid=grid, warmup=warmup, **self._merged(config, kwargs))

    def _final(self, config: Config, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], reset: bool) -> Any:
        """Launch the selected configuration. With `reset`, it is the first launch after a selection."""
        nargs = self._for_hooks(config, grid, args, kwargs)
        if reset:
            self.pre_hook(nargs, reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook(nargs)
        return self._launch(config, grid, args, kwargs)

    def _measured(self, config: Config, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        """Return the cycles of a configuration, which is launched between the hooks."""
        nargs = self._for_hooks(config, grid, args, kwargs)
        if config.pre_hook is not None:
            config.pre_hook(nargs)
        self.pre_hook(nargs)
        try:
            cycles: int = self._launch(config, grid, args, kwargs).cycles
        except Exception as error:
            self.post_hook(nargs, exception=error)
            raise
        self.post_hook(nargs, exception=None)
        return cycles

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """Return the configurations that `prune_configs_by` keeps.

        The functions of `prune_configs_by` get positional arguments in one mapping, and keyword arguments by name.
        """
        configs, named = self.configs, dict(self.nargs or {})
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(configs, dict(named), **kwargs))
        if self.perf_model is not None:
            count, model = self._most_kept(), self.perf_model
            if len(configs) > count:
                configs = sorted(configs, key=lambda one: model(**named, **kwargs, **one.all_kwargs()))[:count]
        if not configs:
            raise TritonError(f"autotune of {self.__name__}: prune_configs_by leaves no configuration")
        return configs

    def _most_kept(self) -> int:
        """Return the most configurations that `perf_model` keeps: `top_k`, or that fraction of all configurations."""
        top = self.configs_top_k
        if isinstance(top, float) and top <= 1:
            return max(1, int(len(self.configs) * top))
        if not isinstance(top, int):
            raise TritonError(
                f"autotune of {self.__name__}: top_k of prune_configs_by is {top!r}; give an integer, or a float of at most 1.0"
            )
        return top

    def _apart(self, configs: Sequence[Config]) -> list[Config]:
        """Return one configuration of each group of configurations that must have equal cycles.

        Hints for GPUs make no difference, unless the kernel has a parameter of that name.
        """
        found: dict[Any, Config] = {}
        for config in configs:
            given = {name: value for name, value in config.all_kwargs().items() if name in self.base.parameters}
            found.setdefault((id(config.pre_hook), *sorted((name, repr(value)) for name, value in given.items())), config)
        return list(found.values())

    def _best(
        self, configs: Sequence[Config], grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
    ) -> tuple[Config, str]:
        """Measure each configuration, and return the best one with a note on configurations that were not run.

        Without `restore_value`, all tensors get their values back after each measurement.
        """
        apart = self._apart(configs)
        note = ""
        if len(apart) < len(configs):
            note = (
                f"autotune: {len(configs) - len(apart)} of {len(configs)} configurations differ from another one only in hints "
                f"for GPUs (num_warps, num_stages, ...), which change nothing here; {len(apart) if len(apart) > 1 else 'none'} "
                f"{'were' if len(apart) > 1 else 'was'} simulated"
            )
        if len(apart) == 1:
            return apart[0], note
        self._check_options(given)
        self.timings = []
        problem: Exception | None = None
        for config in apart:
            arrays = [array for name, one in given.items() for _, array in arrays_in(name, one)] if self._restore_all else []
            kept = [array.copy() for array in arrays]
            try:
                cycles: int | None = self._measured(config, grid, args, kwargs)
            except TritonError as error:
                problem, cycles = error, None
            except Exception as error:
                if type(error).__name__ != "KernelFailed":
                    raise
                problem, cycles = error, None
            finally:
                _restore(arrays, kept)
            self.timings.append((config, cycles))
        able = [(cycles, i) for i, (_, cycles) in enumerate(self.timings) if cycles is not None]
        if not able:
            raise TritonError(f"autotune of {self.__name__}: none of {len(apart)} configurations can run: {problem}")
        freq = device_clock()
        self.configs_timings = {one: float("inf") if cycles is None else cycles / freq / 1e6 for one, cycles in self.timings}
        return self.timings[min(able)[1]][0], note


def device_clock() -> float:
    """Return the clock [GHz] of the machine that runs the launches."""
    return float(import_module(RUNTIME).device_properties()["sm_clock_rate"]) / 1e6


def _restore(arrays: Sequence[Array], copies: Sequence[Array]) -> None:
    for array, copy in zip(arrays, copies, strict=True):
        if array.flags.writeable:
            array[...] = copy


def _machine_name() -> str:
    return str(import_module(RUNTIME).machine_name())


def _key_of(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _kind_of(value: Any) -> Any:
    return tuple(str(array.dtype) for _, array in arrays_in("", value))


def autotune(
    configs: Sequence[Config], key: Sequence[str], prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None, restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None, post_hook: Callable[..., Any] | None = None, warmup: Any = None,
    rep: Any = None, use_cuda_graph: bool = False, do_bench: Any = None, cache_results: bool = False,
) -> Callable[[Any], Autotuner]:  # fmt: skip
    """Select the best of several configurations by simulated cycles.

    Parameters
    ----------
    configs
        The configurations.
    key
        The names of arguments. A new combination of their values starts a new selection.
    prune_configs_by
        As in Triton: a mapping with `early_config_prune`, `perf_model` and `top_k`. If more than `top_k` configurations are
        left, only the `top_k` configurations with the least `perf_model` are measured. A `top_k` of type float is a fraction of
        all configurations. By default (1.0) `perf_model` removes no configuration.
    reset_to_zero
        The names of tensors that are set to 0 before each measurement, and once before the launch that follows a selection.
        As in Triton, later launches with the same key do not set these tensors to 0.
    restore_value
        The names of tensors that get their values back after each measurement. Other tensors keep what measurements wrote, as
        in Triton. By default (None) all tensors get their values back, so a selection changes no tensor.
    pre_hook
        A function that is called as `pre_hook(nargs)` before each measurement, and as `pre_hook(nargs, reset_only=True)` before
        the launch that follows a selection. `nargs` has all arguments of the launch by name. As in Triton, this function takes
        the place of `reset_to_zero` and of the copies for `restore_value`.
    post_hook
        A function that is called as `post_hook(nargs, exception=error)` after each measurement; `error` is None if the
        configuration could run. As in Triton, this function takes the place of what restores `restore_value`.
    warmup, rep, use_cuda_graph, do_bench, cache_results
        Accepted and ignored, because simulated cycles do not vary.

    Raises
    ------
    TritonError
        At a launch, if no configuration can run, if `reset_to_zero` or `restore_value` names no tensor, or if `restore_value`
        is given with a `pre_hook` but without a `post_hook`.

    Example
    -------
    >>> @triton.autotune([triton.Config({"BLOCK": size}) for size in (128, 256)], key=["n"])
    ... @triton.jit
    ... def double(x, y, n, BLOCK: tl.constexpr): ...
    """
    return lambda fn: Autotuner(
        fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by, warmup, rep,
        use_cuda_graph, do_bench, cache_results,
    )  # fmt: skip


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Compute constants of a kernel from the arguments of a launch.

    Parameters
    ----------
    values
        For each constant, a function of the arguments, which it gets in a dict.
    """
    return lambda fn: Heuristics(fn, fn.arg_names, values)
