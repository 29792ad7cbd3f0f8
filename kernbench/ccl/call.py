"""One call of a collective: its queues, the launch of its kernel on every rank, its time and its results."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import msgspec
import numpy as np

from kernbench.ccl.collectives import Collective
from kernbench.ccl.contract import Algorithm, KernelArgs, Table, switch_queues
from kernbench.ccl.group import Group
from kernbench.ccl.group_tl import GroupTl
from kernbench.ccl.reduction import SUM, Reduction, reducing, scale
from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.components.builtin.cores import Cores
from kernbench.components.builtin.switch_queue import SwitchQueueForm
from kernbench.config.kinds import a_system
from kernbench.config.machine import MachineConfig
from kernbench.runtime_api import Bench, Context, DPPolicy
from kernbench.sim_engine.engine import Around, GraphEngine
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.triton_emu.errors import check_ran
from kernbench.triton_emu.launch import Launch

OWN = "kernbench.ccl.algorithms"  #: the modules of kernbench's own algorithms


@dataclass(frozen=True)
class Queues:
    """The parameters of queues. A parameter that is None has the value from `pe.ipcq` of the machine."""

    slots: int | None = None
    slot_bytes: int | None = None
    tier: str | None = None
    protocol: str | None = None  #: a key of `pe.ipcq.protocols`; None: the tuner chooses; without a tuner, simple


@dataclass(frozen=True, eq=False)
class Call:
    """An algorithm that is ready to launch. The kernel of each rank gets the arguments of that rank."""

    name: str
    algorithm: Algorithm
    group: Group
    count: int
    dtype: str
    slot_bytes: int
    skew: tuple[int, ...] = ()  #: by rank: elements that it loads one by one before it begins
    reduction: Reduction = SUM
    collective: Collective | None = None  #: needed if the reduction multiplies elements before or after
    in_place: Collective | None = None  #: the collective, if its elements and results share memory (`Collective.in_place`)
    channels: int = 0  #: cores of each PE that it occupies while it runs

    def arguments(self, rank: int, in_ptr: int, out_ptr: int) -> tuple[Any, ...]:
        """Return the nine arguments of a rank.

        Raises InputError if `kernel_args` of the algorithm does not return them as a tuple.
        """
        group = self.group
        if self.in_place is not None:
            block = rank * self.count * dtype_of(self.dtype).bits // 8
            in_ptr += block if self.in_place.own_in else 0
            out_ptr += block if self.in_place.own_out else 0
        sip, cube, _ = group.shape.place(rank)
        where = (sip, group.shape.sips, cube, group.shape.cubes, group.kind)
        made = self.algorithm.kernel_args(in_ptr, out_ptr, self.count, self.dtype, *where)
        if not isinstance(made, Sequence) or len(made) != len(KernelArgs._fields):
            rule = f"its kernel_args must return the nine arguments of its kernel as a tuple, and it returned {made!r}"
            raise InputError(Problem(self.name, rule))
        return tuple(made)


def on_rank(call: Call, in_ptr: Any, out_ptr: Any, tl: Any, scratch: Any = None, room: Any = None) -> None:
    """Run the call on one PE: the kernel that a launch starts on each PE of a group.

    `scratch` is memory for the elements of a rank; without it, `in_ptr` is overwritten. `room` is the memory that the
    algorithm asked for.
    """
    for _ in range(call.skew[tl.rank] if call.skew else 0):
        tl.load(in_ptr, (1,), call.dtype)
    if call.channels:
        cores: Cores = tl._runner.scheduler.cores
        cores.occupy(call.channels)
        _on_cores(call, in_ptr, out_ptr, tl, scratch, room)
        cores.occupy(0)
    else:
        _on_cores(call, in_ptr, out_ptr, tl, scratch, room)


def _on_cores(call: Call, in_ptr: Any, out_ptr: Any, tl: Any, scratch: Any, room: Any) -> None:
    if call.reduction != SUM and not isinstance(tl, GroupTl):
        tl = GroupTl(tl, tl.rank, tl.world_size, tl.slots, tl.slot_bytes, 0, call.reduction)
    if call.reduction.factor is not None:
        source, in_ptr = in_ptr, in_ptr if scratch is None else scratch
        scale(tl, source, in_ptr, _has(call), call.dtype, call.reduction.factor, call.slot_bytes)
    more = () if room is None else (room,)
    check_ran(call.algorithm.kernel(*call.arguments(tl.rank, in_ptr, out_ptr), tl, *more), f"the kernel {call.name}")
    if call.reduction.name == "avg" and call.group.size > 1 and not (call.collective and call.collective.rooted and tl.rank):
        tl.wait()
        scale(tl, out_ptr, out_ptr, call.count, call.dtype, 1 / call.group.size, call.slot_bytes)


def check_channels(config: MachineConfig, channels: int) -> None:
    """Raise InputError if the channels of a collective leave no core of a PE for other work."""
    cores = a_system("collectives", config).pe.cores
    if type(channels) is not int or channels < 0 or (channels and channels >= cores):
        rule = f"a channel occupies a core, and at least one of the {cores} cores of a PE (pe.cores) must stay free"
        raise InputError(
            Problem("collectives", rule, "channels", channels, "use fewer channels, or raise pe.cores in the machine file")
        )


def on_rank_with_room(call: Call, in_ptr: Any, out_ptr: Any, room: Any, tl: Any) -> None:
    """Run the call on one PE, for an algorithm that asked for memory."""
    on_rank(call, in_ptr, out_ptr, tl, room=room)


def _has(call: Call) -> int:
    """Return the number of elements of a rank."""
    return call.count if call.collective is None else call.collective.has(call.count, call.group.size)


class Launcher(msgspec.Struct):
    """Launches collectives in a run. Queues stay installed while successive calls have the same neighbours."""

    ctx: Context
    queues: Queues = msgspec.field(default_factory=Queues)
    _installed: tuple[tuple[str, ...], Table, tuple[SwitchQueueForm, ...]] | None = None

    def install(self, call: Call) -> None:
        """Install the queues of a call, unless they are installed. All earlier launches must have ended."""
        group = call.group
        table = call.algorithm.neighbours(group.kind, group.shape)
        switched = switch_queues(call.algorithm, group.kind, group.shape, call.reduction.op)
        if self._installed != (group.pes, table, switched):
            how = self.queues
            self.ctx.install_queues(table, ranks=group.pes, through_switches=switched, **asdict(how))
            self._installed = group.pes, table, switched

    def __call__(self, call: Call, x: Any, out: Any) -> Launch:
        """Launch the call on all ranks, and continue without waiting. `x` and `out` are tensors with a shard on each PE of the
        group.
        """
        self.install(call)
        room = self._room(call)
        if room is None:
            return self.ctx.launch(call.name, on_rank, call, x, out, pes=call.group.pes)
        return self.ctx.launch(call.name, on_rank_with_room, call, x, out, room, pes=call.group.pes)

    def _room(self, call: Call) -> Any:
        """Return the memory that the algorithm asks for (`scratch_chunks`), per rank. Launches of the same size share it."""
        chunks = getattr(call.algorithm, "scratch_chunks", 0)
        if not chunks:
            return None
        size = chunks * call.algorithm.chunk_elements(call.count)  # type: ignore[attr-defined]
        name = f"scratch of {size} {call.dtype}"
        if name not in self.ctx.tensors:
            placed = call.group.placed or call.group.shape
            self.ctx.empty((placed.ranks, size), call.dtype, name=name, placement=_rows(placed))
        return self.ctx.tensors[name]


def place_in(algorithm: Algorithm, error: BaseException | None) -> str:
    """Return the innermost frame of an error in the file of the kernel as `mine.py:21, in kernel`, or an empty text.

    The causes of the error are searched as well.
    """
    code = getattr(inspect.unwrap(algorithm.kernel), "__code__", None)
    while error is not None and code is not None:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename == code.co_filename:
                return f"{os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}"
        error = error.__cause__
    return ""


class Outcome(msgspec.Struct, frozen=True):
    """The result of a call."""

    status: str  #: done, aborted or deadlock
    cycles: int  #: from the first rank's first cycle to the end of the last rank's last command; 0: it has not ended
    wrong: int | None  #: elements that differ from the reference in a bit; None if not verified
    engine: GraphEngine
    whole: int = 0  #: cycles from the first launch's first cycle to the end: of all launches, where there are several
    exact: Fraction = Fraction(0)  #: `cycles` before it is rounded, where it is a mean of several launches


def run_call(
    config: MachineConfig,
    call: Call,
    collective: Collective,
    queues: Queues,
    *,
    check: bool,
    seed: int = 0,
    warmup: int = 0,
    iters: int = 1,
    progress: Callable[[Machine], None] | None = None,
    around: Around = nullcontext,
) -> Outcome:
    """Run a call of a collective on a machine.

    Parameters
    ----------
    config
        The machine.
    call
        The algorithm with its group, count and element type.
    collective
        The collective of the call.
    queues
        The parameters of the queues.
    check
        Whether the result is verified. Without verification, all ranks have the same elements.
    seed
        The seed of the random elements.
    warmup
        The number of launches before the measurement.
    iters
        The number of measured launches; the result has their mean time. The host launches them without waiting in between.
    progress
        A function that is called with the machine while it runs.
    around
        A context manager that encloses the run.

    Returns
    -------
    The outcome. The elements of the last launch are verified.

    Raises
    ------
    InputError, KernelFailed
        In the cases of `GraphEngine.run`, and if the algorithm has no valid reference.
    """
    host, inputs = _elements(call, collective, seed, check)
    found: dict[str, Any] = {}
    engine = GraphEngine(config, op_log=check)
    bench = _made(call, collective, queues, host, found, warmup + iters, reads=check)
    engine.run(bench, progress=progress, around=around)
    status, launches, wrong = engine.machine.status, found["launches"], None
    if status != "done":
        return Outcome(status, 0, None, engine)
    if check:
        from kernbench.sim_engine.data_executor import DataExecutor  # Phase 2, imported only if it is needed

        assert engine.op_log is not None
        expected = _expected(call, collective, inputs)
        for _ in range(warmup + iters - 1 if call.in_place else 0):
            inputs = _next_inputs(call, collective, inputs, expected)
            expected = _expected(call, collective, inputs)
        wrong = _wrong(call, expected, found["out"], DataExecutor(engine.op_log).run().store)
    exact = Fraction(launches[-1].end - launches[warmup].start, iters)
    return Outcome(status, round(exact), wrong, engine, launches[-1].end - launches[0].start, exact)


def call_bench(call: Call, collective: Collective, queues: Queues, seed: int = 0) -> Bench:
    """Return the call as a bench with random elements for each rank. Its result is the tensor `out`, or `in` for a call in
    place.
    """
    return _made(call, collective, queues, _elements(call, collective, seed, True)[0], {})


def call_machine(config: MachineConfig, call: Call, collective: Collective, queues: Queues) -> Machine:
    """Return the machine of the call at cycle 0, without a log and without verification. Raises InputError as
    `GraphEngine.prepare`.
    """
    return GraphEngine(config, op_log=False).prepare(
        _made(call, collective, queues, _elements(call, collective, 0, False)[0], {})
    )


def _next_inputs(call: Call, collective: Collective, inputs: Sequence[Array], results: Sequence[Array]) -> list[Array]:
    """Return the elements of each rank after a call in place, which replaced elements by results."""
    found = []
    for rank, (had, got) in enumerate(zip(inputs, results, strict=True)):
        after = had.copy()
        if collective.blocks_in:
            after[rank * call.count : (rank + 1) * call.count] = got
        elif not collective.blocks_out and got.size:
            after = got.copy()
        found.append(after)
    return found


def _elements(call: Call, collective: Collective, seed: int, each: bool) -> tuple[Array, list[Array]]:
    """Return the tensor of the elements, and the elements of each rank, which are views of the tensor.

    The tensor has one row for each rank in the order of PEs. Without `each`, the tensor has one row, which all ranks have.
    """
    group = call.group
    has, gets = collective.has(call.count, group.size), collective.gets(call.count, group.size)
    wide = max(has, gets) if call.in_place else has
    if not each and group.size > 1:
        alone = _random(call.dtype, has, seed)
        host, inputs = np.resize(alone, (1, wide)), [alone]
    else:
        host = np.zeros(((group.placed or group.shape).ranks, wide), dtype_of(call.dtype).numpy)
        inputs = []
        for rank, row in enumerate(group.rows):
            start = rank * call.count if call.in_place and collective.own_in else 0
            inputs.append(_random(call.dtype, has, seed + rank, host[row, start : start + has]))
    host.flags.writeable = False
    return host, inputs


def _made(
    call: Call,
    collective: Collective,
    queues: Queues,
    host: Array,
    found: dict[str, Any],
    times: int = 1,
    reads: bool = True,
) -> Bench:
    """Return the bench that runs the call. `host` has one row for each rank, or one row for all ranks.

    `found` receives the tensor of the results and the launches. `reads` is False if the caller does not use the elements of
    the results. The kernels of kernbench use no elements; kernels of users may.
    """
    group = call.group
    placed = group.placed or group.shape
    gets = collective.gets(call.count, group.size)

    def run(ctx: Context) -> None:
        if not call.in_place:
            found["out"] = ctx.empty((placed.ranks, gets), call.dtype, name="out", placement=_rows(placed))
        where = _rows(placed) if len(host) == placed.ranks else _copies(placed)
        x = ctx.from_numpy(host, name="in", dtype=call.dtype, placement=where)
        found.setdefault("out", x)
        launch = Launcher(ctx, queues)
        found["launches"] = [launch(call, x, found["out"]) for _ in range(times)]

    own = getattr(call.algorithm, "__name__", "").startswith(f"{OWN}.")
    return Bench(call.name, "a collective", run, None, reads_memory=reads or not own)


def _rows(shape: Any) -> DPPolicy:
    """Return the placement of a tensor with one row per rank."""
    return DPPolicy("row_wise", "row_wise", "row_wise", *shape)


def _copies(shape: Any) -> DPPolicy:
    """Return the placement of a tensor of which every rank has a copy."""
    return DPPolicy(sips=shape.sips, cubes=shape.cubes, pes=shape.pes)


def _random(dtype: str, count: int, seed: int, out: Array | None = None) -> Array:
    """Return random elements, in `out` if it is given: floats from 0.5 to 2 of both signs, or integers of all sizes."""
    random, kind = np.random.default_rng(seed), dtype_of(dtype)
    elements: Array = np.empty(count, kind.numpy) if out is None else out
    if kind.kind != "float":
        elements[:] = random.integers(int(kind.least), int(kind.most) + 1, count, np.int64)
        return elements
    # Random bits replace the sign, the last bit of the exponent and the mantissa of 0.5: much faster than a distribution.
    unsigned, finfo = np.dtype(f"u{kind.bits // 8}"), ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]
    kept = unsigned.type(1 << kind.bits - 1 | (2 << finfo.nmant) - 1)
    words = random.integers(0, 2**64 - 1, -(-count * kind.bits // 64), np.uint64, endpoint=True)
    bits = elements.view(unsigned)
    np.bitwise_and(words.view(unsigned)[:count], kept, out=bits)
    bits |= np.array(0.5, kind.numpy).view(unsigned)
    return elements


def _expected(call: Call, collective: Collective, inputs: Sequence[Array]) -> list[Array]:
    """Return the results of the reference of an algorithm, by rank.

    Raises InputError, with the line of the file, if the reference fails or returns another number of elements than the ranks
    get. Missing elements could not be verified.
    """
    group = call.group
    for one in inputs:
        one.flags.writeable = False  # sums made in the place of an input would be the next rank's input
    reduction = call.reduction
    try:
        with reducing(reduction):
            given = call.algorithm.reference(
                [reduction.before(one) for one in inputs], group.kind, group.shape, call.slot_bytes
            )
        found = [reduction.after(np.asarray(given[rank]), group.size) for rank in range(group.size)]
    except (Exception, SystemExit) as error:
        place = place_in(call.algorithm, error)
        rule = f"its reference failed: {place and place + ': '}{type(error).__name__}: {error}"
        remedy = "" if place else f"it must return the elements of each of {group.size} ranks"
        raise InputError(Problem(call.name, rule, remedy=remedy)) from error
    for rank, one in enumerate(found):
        said = collective.says(call.count, group.size, rank)
        if one.size not in said:
            rule = f"its reference gives {one.size:,} elements for rank {rank}, which gets {said[0]:,}"
            raise InputError(Problem(call.name, rule, remedy="it must give everything that a rank receives"))
    return found


def _wrong(call: Call, expected: Sequence[Array], out: Any, store: MemoryStore) -> int:
    """Count the elements that differ in any bit from the elements of the reference. All NaNs count as equal."""
    total = 0
    for rank, row in enumerate(call.group.rows):
        right = expected[rank]
        if right.size:
            try:
                first = rank * right.nbytes if call.in_place is not None and call.in_place.own_out else 0
                at = out.parts[row].physical + first
                got = store.read("hbm", at, right.shape, call.dtype)
            except ValueError:  # some of it was never written
                total += int(right.size)
                continue
            total += int(right.size - np.count_nonzero(_same(got, right)))
    return total


def _same(got: Array, right: Array) -> Array:
    """Return where two arrays are equal in every bit, so that -0 and 0 differ. Arrays of different types are compared as
    numbers.
    """
    alike: Array | None = None
    if got.dtype == right.dtype:
        bits = f"u{got.dtype.itemsize}"
        alike = np.ascontiguousarray(got).view(bits) == np.ascontiguousarray(right).view(bits)
        if alike.all():  # comparing floats of 16 bits takes ten times as long
            return alike
    found: Array = (got == right) | ((got != got) & (right != right))
    if alike is not None:
        found &= (got != got) | alike
    return found
