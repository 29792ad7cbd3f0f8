"""`autotune` picks the configuration of the fewest simulated cycles; `heuristics` compute constants from arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernbench.triton.arguments import array_of, arrays_in
from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import JITFunction


class Config:
    """Values of a kernel's constants, and hints (which change nothing here)."""

    def __init__(
        self, kwargs: Mapping[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:  # fmt: skip
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """All arguments that it adds to a launch."""
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}

    def __repr__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())


class _Wrapped:
    """A kernel whose launches get more arguments."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.base: JITFunction = fn.base if isinstance(fn, _Wrapped) else fn
        self.__name__ = self.base.__name__

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(grid, args, kwargs)

    def run(self, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What was given, by name."""
        return {**dict(zip(self.base.arg_names, args, strict=False)), **kwargs}


class Heuristics(_Wrapped):
    """Constants by functions of the arguments."""

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def run(self, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found = dict(kwargs)
        for name, compute in self.values.items():
            found[name] = compute(self.named(args, found))
        return self.fn.run(grid, args, found)


_OPTIONS = frozenset(
    {"reset_to_zero", "restore_value", "prune_configs_by", "warmup", "rep", "use_cuda_graph", "do_bench", "cache_results"}
)


class Autotuner(_Wrapped):
    """The configuration with the fewest cycles, for each value of the key arguments and each machine."""

    def __init__(self, fn: Any, configs: Sequence[Config], key: Sequence[str], **options: Any) -> None:
        super().__init__(fn)
        self.configs = list(configs) or [Config({})]
        self.key = list(key)
        self._zeroed = list(options.get("reset_to_zero") or ())
        self._prune = options.get("prune_configs_by") or {}
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.best_config: Config | None = None
        self.timings: list[tuple[Config, int | None]] = []  #: cycles of each; None: it could not run
        other = sorted(set(options) - _OPTIONS)
        if other:
            known = ", ".join(sorted(_OPTIONS))
            raise TritonError(f"autotune has no {', '.join(other)}; it has {known}, and triton.Config has pre_hook")
        unknown = [name for name in self.key if name not in self.base.arg_names]
        if unknown:
            raise TritonError(f"autotune of {self.__name__}: key {', '.join(unknown)} is no argument of it")

    def run(self, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = self.named(args, kwargs)
        place = _machine_name()
        key = (place, *(_key_of(given.get(name)) for name in self.key), *(_kind_of(one) for one in given.values()))
        if key not in self.cache:
            self.cache[key] = self._best(grid, args, kwargs, given)
        self.best_config = best = self.cache[key]
        for name in self._zeroed:
            array = array_of(name, given[name])
            if array is not None:
                array[...] = 0
        return self._with(best, grid, args, kwargs)

    def _with(self, config: Config, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        twice = sorted(set(config.kwargs) & set(kwargs))
        if twice:
            raise TritonError(f"{self.__name__}: {', '.join(twice)} is chosen by autotune; do not give it")
        if config.pre_hook is not None:
            config.pre_hook({**self.named(args, kwargs), **config.kwargs})
        return self.fn.run(grid, args, {**kwargs, **config.all_kwargs()})

    def _pruned(self, named: Mapping[str, Any], kwargs: Mapping[str, Any]) -> list[Config]:
        """The configurations that `prune_configs_by` keeps: its functions get positional arguments in one mapping, and keyword
        arguments by name.
        """
        configs, early, model = self.configs, self._prune.get("early_config_prune"), self._prune.get("perf_model")
        if early is not None:
            configs = list(early(configs, dict(named), **kwargs))
        if model is not None:
            top = self._prune.get("top_k", 0.2)
            count = max(1, int(len(configs) * top)) if isinstance(top, float) and top <= 1 else int(top)
            configs = sorted(configs, key=lambda one: model(**named, **kwargs, **one.all_kwargs()))[:count]
        if not configs:
            raise TritonError(f"autotune of {self.__name__}: prune_configs_by leaves no configuration")
        return configs

    def _best(self, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: dict[str, Any]) -> Config:
        """Run each on copies of what it may write."""
        configs = self._pruned(dict(zip(self.base.arg_names, args, strict=False)), kwargs)
        if len(configs) == 1:
            return configs[0]
        self.timings = []
        problem: Exception | None = None
        for config in configs:
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
            raise TritonError(f"autotune of {self.__name__}: none of {len(configs)} configurations can run: {problem}")
        return self.timings[min(able)[1]][0]


def _machine_name() -> str:
    from importlib import import_module

    from kernbench.triton.jit import RUNTIME

    return str(import_module(RUNTIME).machine_name())


def _key_of(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _kind_of(value: Any) -> Any:
    return tuple(str(array.dtype) for _, array in arrays_in("", value))


def autotune(configs: Sequence[Config], key: Sequence[str], **options: Any) -> Callable[[Any], Autotuner]:
    """Choose among `configs` by simulated cycles, again for each value of the arguments `key`.

    `reset_to_zero`, `restore_value` and `prune_configs_by` (`early_config_prune`, `perf_model`, `top_k`) are Triton's;
    `warmup`, `rep`, `use_cuda_graph`, `do_bench` and `cache_results` have no meaning for cycles that do not vary.
    """
    return lambda fn: Autotuner(fn, configs, key, **options)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Compute constants from the arguments of a launch, by name."""
    return lambda fn: Heuristics(fn, values)
