"""`autotune` selects the configuration with the fewest simulated cycles; `heuristics` computes constants from arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from kernbench.triton.arguments import array_of, arrays_in
from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import RUNTIME, JITFunction, KernelInterface
from kernbench.triton_emu.errors import ScratchpadFullError


class Config:
    """Values for the constants of a kernel, with hints for GPUs, which are ignored unless the kernel has such a parameter."""

    def __init__(
        self, kwargs: Mapping[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None, ir_override: Any = None,
    ) -> None:  # fmt: skip
        self.ir_override = ir_override
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """Return all arguments that the configuration adds to a launch."""
        more = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return {**self.kwargs, **more, **({} if self.num_ctas == 1 else {"num_ctas": self.num_ctas})}

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
    fields have Triton's names, so that programs can derive classes.
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
        self.user_pre_hook, self.user_post_hook = pre_hook, post_hook
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook: Callable[..., Any] = self._before if pre_hook is None else pre_hook
        self.post_hook: Callable[..., Any] = (lambda *_, **__: None) if post_hook is None else post_hook
        prune = dict(prune_configs_by or {})
        self.perf_model, self.configs_top_k = prune.get("perf_model"), prune.get("top_k", 0.2)
        self.early_config_prune = prune.get("early_config_prune")
        self.cache_results = cache_results
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self.cache: dict[tuple[Any, ...], Config] = {}
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
            if not warmup and not import_module(RUNTIME).machine_tunes():
                return self._first(key, grid, args, kwargs, given)
            self.cache[key], note = self._best(grid, args, kwargs, given)
        self.best_config = best = self.cache[key]
        if not warmup:
            self._zero(given)
        made = self._with(best, grid, args, kwargs, warmup)
        if note and not warmup:
            made.notes.insert(0, note)
        self.nargs = None
        return made

    def _first(
        self, key: tuple[Any, ...], grid: Any, args: Sequence[Any], kwargs: dict[str, Any], given: Mapping[str, Any]
    ) -> Any:
        """Launch the first configuration that fits into the scratchpad, and keep it."""
        full: ScratchpadFullError | None = None
        for config in self._apart(self.prune_configs(kwargs)):
            self._zero(given)
            try:
                made = self._with(config, grid, args, kwargs)
            except ScratchpadFullError as error:
                full = error
                continue
            self.cache[key] = self.best_config = config
            self.nargs = None
            return made
        assert full is not None
        raise full

    def _zero(self, given: Mapping[str, Any]) -> None:
        for name in self.reset_to_zero:
            array = array_of(name, given[name])
            if array is not None:
                array[...] = 0

    def _before(self, given: Mapping[str, Any], reset_only: bool = False) -> None:
        """Set the tensors of `reset_to_zero` to 0, as Triton does before each measurement."""
        self._zero(given)

    def _with(self, config: Config, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], warmup: bool = False) -> Any:
        twice = sorted(set(config.kwargs) & set(kwargs))
        if twice:
            raise TritonError(f"{self.__name__}: {', '.join(twice)} is set by autotune; leave it out of the launch")
        if config.pre_hook is not None:
            config.pre_hook({**self.named(args, kwargs), **config.kwargs})
        return self.fn.run(*args, grid=grid, warmup=warmup, **{**kwargs, **config.all_kwargs()})

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """Return the configurations that `prune_configs_by` keeps.

        The functions of `prune_configs_by` get positional arguments in one mapping, and keyword arguments by name.
        """
        configs, named = self.configs, dict(self.nargs or {})
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(configs, dict(named), **kwargs))
        if self.perf_model is not None:
            top, model = self.configs_top_k, self.perf_model
            count = max(1, int(len(configs) * top)) if isinstance(top, float) and top <= 1 else int(top)
            configs = sorted(configs, key=lambda one: model(**named, **kwargs, **one.all_kwargs()))[:count]
        if not configs:
            raise TritonError(f"autotune of {self.__name__}: prune_configs_by leaves no configuration")
        return configs

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
        self, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: dict[str, Any]
    ) -> tuple[Config, str]:
        """Run each configuration on copies of the tensors, and return the best one with a note on configurations that were not
        run.
        """
        configs = self.prune_configs(kwargs)
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
        self.timings = []
        problem: Exception | None = None
        for config in apart:
            arrays = [array for name, one in given.items() for _, array in arrays_in(name, one)]
            kept = [array.copy() for array in arrays]
            try:
                cycles: int | None = self._with(config, grid, args, kwargs).cycles
            except TritonError as error:
                problem, cycles = error, None
            except Exception as error:
                if type(error).__name__ != "KernelFailed":
                    raise
                problem, cycles = error, None
            for array, old in zip(arrays, kept, strict=True):
                if array.flags.writeable:
                    array[...] = old
            self.timings.append((config, cycles))
        able = [(cycles, i) for i, (_, cycles) in enumerate(self.timings) if cycles is not None]
        if not able:
            raise TritonError(f"autotune of {self.__name__}: none of {len(apart)} configurations can run: {problem}")
        freq = device_clock()
        self.configs_timings = {
            one: float("inf") if cycles is None else cycles / freq / 1e6 for one, cycles in self.timings
        }
        return self.timings[min(able)[1]][0], note


def device_clock() -> float:
    """Return the clock [GHz] of the machine that runs the launches."""
    return float(import_module(RUNTIME).device_properties()["sm_clock_rate"]) / 1e6


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
        As in Triton: a mapping with `early_config_prune`, `perf_model` and `top_k`.
    reset_to_zero
        The names of tensors that are set to 0 before each launch.
    restore_value
        Accepted and ignored, because all tensors are restored after each measurement.
    pre_hook, post_hook
        Kept as attributes of the tuner, under Triton's names. The tuner itself does not call these functions.
    warmup, rep, use_cuda_graph, do_bench, cache_results
        Accepted and ignored, because simulated cycles do not vary.

    Raises
    ------
    TritonError
        At a launch, if no configuration can run.

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
