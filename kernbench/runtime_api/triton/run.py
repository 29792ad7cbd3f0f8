"""Launches of Triton kernels: each launch has its own machine, and arrays are copied to the machine and back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import KernbenchError, error_text
from kernbench.common.json_shapes import counted
from kernbench.common.units import cycles_to_ns
from kernbench.config import load_config
from kernbench.config.allowed_code import AllowCode
from kernbench.config.machine import MachineConfig
from kernbench.runtime_api.bench import Bench
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.pe_set import PeSet
from kernbench.runtime_api.report import idle_engines
from kernbench.runtime_api.triton.addresses import resolved
from kernbench.runtime_api.triton.buffers import Buffers
from kernbench.runtime_api.triton.races import Race, left_out_notes, nan_of_masks, races, twice_notes
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.engine import GraphEngine, KernelFailed, TimingResult
from kernbench.sim_engine.recording import TraceOptions
from kernbench.sim_engine.summary import engine_uses
from kernbench.sim_engine.verify import Failure, Verification, compare
from kernbench.trace.writer import TraceFile
from kernbench.triton.arguments import arrays_in
from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import ALWAYS, CompiledKernel, JITFunction, Metadata
from kernbench.triton.profiler import scopes
from kernbench.triton.program import Options, raised_at
from kernbench.triton.reductions import assert_text
from kernbench.triton_emu.errors import KernelError


@dataclass(frozen=True)
class _Machine:
    config: MachineConfig
    name: str
    portable: bool = False
    checks: frozenset[str] = frozenset()
    tune: bool = True
    runs: list[KernelRun] = field(default_factory=list)
    around: _Machine | None = None  #: enclosing machine, whose checks apply too


_CHOSEN: ContextVar[_Machine | None] = ContextVar("kernbench_machine", default=None)
CHECKS = ("memory", "races")
DEFAULT_MACHINE = "single_cube"  #: the machine if none is named: a grid has many programs, so the default has the PEs of a cube


@contextmanager
def machine(
    config: str | os.PathLike[str] | MachineConfig = DEFAULT_MACHINE,
    *,
    portable: bool = False,
    check: str = "",
    tune: bool = True,
    allow_code: AllowCode = (),
) -> Iterator[list[KernelRun]]:
    """Run the Triton kernels that are launched inside the `with` block on this machine.

    - `config`: a preset, a file or a machine.
    - `portable`: whether the rules of Triton itself are enforced.
    - `check`: `memory`, `races`, or both, joined by a comma. Bounds are always checked. The check `races` covers the programs
      of one launch.
    - `tune`: if False, an autotuned kernel uses its first configuration that fits, and the other configurations are not
      simulated.
    - `allow_code`: the same as in `load_config`.

    The block gets the list of all runs so far. The function raises TritonError for an unknown check.

    >>> import kernbench as kb
    >>> with kb.machine("single_cube") as runs:
    ...     pass
    >>> runs
    []
    """
    unknown = [one for one in check.split(",") if one and one not in CHECKS]
    if unknown:
        raise TritonError(f"check={check}: check must be one or more of {', '.join(CHECKS)}")
    found = config if isinstance(config, MachineConfig) else load_config(config, allow_code=allow_code)
    around = _CHOSEN.get()
    checks = frozenset(one for one in check.split(",") if one) | (around.checks if around else frozenset())
    chosen = _Machine(found, _name_of(found, config), portable, checks, tune, around=around)
    token = _CHOSEN.set(chosen)
    try:
        yield chosen.runs
    finally:
        _CHOSEN.reset(token)


def _name_of(config: MachineConfig, given: object) -> str:
    """The name of a machine as a key of caches."""
    return repr(config) if isinstance(given, MachineConfig) else str(given)


def _machine() -> _Machine:
    found = _CHOSEN.get()
    return _Machine(_default_config(), DEFAULT_MACHINE) if found is None else found


@cache
def _default_config() -> MachineConfig:
    found: MachineConfig = load_config(DEFAULT_MACHINE)
    return found


def machine_name() -> str:
    """The name of the machine on which launches run now."""
    found = _CHOSEN.get()
    return DEFAULT_MACHINE if found is None else found.name


def machine_tunes() -> bool:
    """Whether autotuned kernels simulate their configurations."""
    return _machine().tune


def device_properties() -> dict[str, int]:
    """The machine on which launches run, with the names of Triton's `driver.active.utils.get_device_properties`."""
    config = _machine().config
    places = PeSet(config)
    pe = places.config
    nbytes = pe.pe.spm.size_bytes
    clock = int(float(pe.freq_ghz) * 1e6)
    return {
        "max_shared_mem": nbytes,
        "max_num_regs": nbytes // 4,
        "multiprocessor_count": len(places.pes),
        "warpSize": 1,
        "sm_clock_rate": clock,
        "mem_clock_rate": clock,
        "mem_bus_width": 0,
    }


@contextmanager
def recorded() -> Iterator[list[KernelRun]]:
    """The runs of the launches inside the `with` block, on the machine on which launches run now."""
    around = _machine()
    inside = _Machine(around.config, around.name, around.portable, around.checks, around.tune, around=_CHOSEN.get())
    token = _CHOSEN.set(inside)
    try:
        yield inside.runs
    finally:
        _CHOSEN.reset(token)


@dataclass(eq=False, repr=False)
class KernelRun:
    """A launch of a Triton kernel. `cycles` counts the kernel without the launch itself; `arrays` are the tensors after the
    launch.

    >>> import kernbench as kb
    >>> with kb.machine("single_cube") as runs:  # kernels that are launched here append a KernelRun each
    ...     pass
    >>> len(runs)
    0
    """

    name: str
    timing: TimingResult
    engine: GraphEngine
    bench: Bench
    arrays: dict[str, Array]  #: tensors after the launch, by the names of arguments
    notes: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)  #: lines of `tl.device_print`
    races: list[Race] = field(default_factory=list)  #: if `check` requests them
    problems: list[str] = field(default_factory=list)  #: NaN caused by masks, if `check` requests `memory`
    scopes: tuple[str, ...] = ()  #: of `triton.profiler` around the launch, outermost first
    compiled: CompiledKernel | None = None  #: the kernel with the constants and options of the launch

    @property
    def metadata(self) -> Metadata:
        """Name and launch options of the kernel."""
        return self._compiled().metadata

    @property
    def asm(self) -> dict[str, str]:
        """An empty dict, because kernels run as Python. The error for a key says so."""
        return self._compiled().asm

    @property
    def n_regs(self) -> int:
        """The 32-bit words in the scratchpad of a PE for each warp of the launch."""
        return self._compiled().n_regs

    @property
    def n_spills(self) -> int:
        """0, because no registers are spilled."""
        return self._compiled().n_spills

    def _compiled(self) -> CompiledKernel:
        assert self.compiled is not None
        return self.compiled

    @property
    def cycles(self) -> int:
        """[cycle] From the start of the first program to the end of the last command."""
        launch = self.timing.launches[0]
        assert launch.start is not None and launch.end is not None
        return launch.end - launch.start

    @property
    def t_ns(self) -> float:
        """The same in nanoseconds."""
        return float(cycles_to_ns(self.cycles, PeSet(self.engine.config).config.freq_ghz))

    def __repr__(self) -> str:
        return f"{self.name}: {counted(self.cycles, 'cycle')}, {self.t_ns:,.0f} ns"

    def verify(self, expected: Mapping[str, Any]) -> Verification:
        """Compare tensors with arrays, by the names of arguments and within the tolerances of their types."""
        failures: list[Failure] = []
        for name, array in expected.items():
            if name not in self.arrays:
                raise TritonError(f"{self.name} has no tensor {name}; it has {', '.join(self.arrays)}")
            got, wanted = self.arrays[name], np.asarray(array)
            if got.dtype == np.uint64:
                got, wanted = got.view(np.int64), wanted.astype(np.uint64).view(np.int64)
            failure = compare(name, got, wanted, dtype_of(got.dtype).name)
            failures += [] if failure is None else [failure]
        return Verification(tuple(expected), tuple(failures))

    def trace(self, path: str | os.PathLike[str], level: str = "full") -> None:
        """Run the kernel again on the same arguments, and write a trace."""
        engine = GraphEngine(self.engine.config, op_log=False)
        prepared = engine.prepare(self.bench)
        with TraceFile(path) as file:
            tracing = prepared.trace(file, TraceOptions(level=level))
            try:
                prepared.run()
            finally:
                tracing.close()


class EmptyRun(KernelRun):
    """A launch of a grid without programs; the launch takes no time."""

    @property
    def cycles(self) -> int:
        return 0

    def trace(self, path: str | os.PathLike[str], level: str = "full") -> None:
        """Raise TritonError, because there is nothing to trace."""
        raise TritonError(f"{self.name}: the grid has no programs, so there is no trace")


def _nothing(kernel: JITFunction, arguments: Mapping[str, Any], hints: Mapping[str, Any]) -> KernelRun:
    """The run of an empty grid."""
    arrays = {label: array for name, value in arguments.items() for label, array in arrays_in(name, value)}
    absent: Any = None  # no machine was made
    compiled = _compiled(kernel, arguments, hints)
    return EmptyRun(kernel.__name__, absent, absent, absent, arrays, _notes(hints, Options()), compiled=compiled)


def _compiled(kernel: JITFunction, arguments: Mapping[str, Any], hints: Mapping[str, Any]) -> CompiledKernel:
    return CompiledKernel(kernel, {name: arguments[name] for name in kernel.arg_names if name in kernel.constexprs}, hints)


def _with_line(error: KernelFailed) -> KernbenchError:
    """The error for an exception inside a kernel, with the line of the kernel."""
    cause = error.__cause__
    line = raised_at(cause.__traceback__) if cause is not None else ""
    if cause is None or not line or isinstance(cause, KernbenchError):
        return error
    made = TritonError(f"{line}: {error_text(cause)}")
    for note in getattr(cause, "__notes__", ()):
        made.add_note(note)
    return made


def _notes(hints: Mapping[str, Any], options: Options) -> list[str]:
    ignored = [name for name, value in hints.items() if value not in (None, False) and name not in ALWAYS]
    hinted = [f"{', '.join(ignored)}: hints for GPUs, which change nothing here"] if ignored else []
    return [*hinted, *options.notes, *left_out_notes(options), *twice_notes(options)]


def _bench(
    kernel: JITFunction, grid: tuple[int, ...], arguments: dict[str, Any], buffers: Buffers, options: Options
) -> Bench:  # fmt: skip
    """A bench that launches the kernel once, under the names of the enclosing scopes."""
    around = scopes()

    def run(ctx: Context) -> None:
        given = buffers.deploy(ctx, arguments)
        options.windows = buffers.windows(ctx)

        def program(*, tl: Any) -> None:
            kernel.program(tl, options, given)

        program.__name__ = kernel.__name__
        program.__signature__ = signature(program)  # type: ignore[attr-defined]  # asked for by each program
        ctx.launch("/".join((*around, kernel.__name__)), program, grid=grid)

    return Bench(kernel.__name__, f"the Triton kernel {kernel.__name__}", run, None)


def _check_asserts(options: Options, executor: DataExecutor) -> None:
    """Raise TritonError for the first `tl.device_assert` whose computed condition has a false element."""
    for op_id, line, msg, lanes in options.asserts:
        found = executor.watched[op_id] != 0
        if lanes is not None:
            found = found | ~np.asarray(lanes, np.bool_).reshape(found.shape if lanes.size == found.size else lanes.shape)
        if not found.all():
            raise TritonError(f"{line}: {assert_text(msg)}")


def run_kernel(kernel: JITFunction, grid: tuple[int, ...], arguments: dict[str, Any], hints: dict[str, Any]) -> KernelRun:
    """Run a kernel, and write the stored data back into the arrays among its arguments.

    TritonError for arguments that no machine accepts; KernelFailed or TritonError for an error inside the kernel.
    """
    if 0 in grid:
        return _nothing(kernel, arguments, hints)
    chosen = _machine()
    freq = PeSet(chosen.config).config.freq_ghz
    checks = chosen.checks
    options = Options(portable=chosen.portable, races="races" in checks, poison="memory" in checks, freq_ghz=float(freq))
    arguments = resolved(kernel.__name__, arguments)
    buffers = Buffers(kernel.__name__, arguments)

    bench = _bench(kernel, grid, arguments, buffers, options)
    engine = GraphEngine(chosen.config)
    try:
        timing = engine.run(bench)
    except KernelFailed as error:
        found = error.__cause__
        if isinstance(found, TritonError | KernelError):
            raise found from found.__cause__
        raise _with_line(error) from error.__cause__
    assert engine.op_log is not None
    executor = DataExecutor(engine.op_log, watch=[one for one, *_ in options.asserts], unchanged=options.unchanged).run()
    _check_asserts(options, executor)
    store = executor.store
    arrays = buffers.bring_back(store, options.written)
    problems = nan_of_masks(options, buffers, arrays) if options.poison else []
    problems += twice_notes(options) if options.races else []
    made = KernelRun(
        kernel.__name__,
        timing,
        engine,
        bench,
        arrays,
        [*_notes(hints, options), *idle_engines(engine_uses(timing.result))],
        options.printed,
        races(options.accesses),
        problems,
        scopes(),
        _compiled(kernel, arguments, hints),
    )
    inside: _Machine | None = chosen
    while inside is not None:
        inside.runs.append(made)
        inside = inside.around
    return made
