"""The running program, to which the functions of the language pass their commands. These functions have no `tl` parameter."""

from __future__ import annotations

import dis
import operator
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from math import prod
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.lanes import Lanes
from kernbench.common.pe_commands import DmaReadCmd, DmaWriteCmd, MemoryWriteMsg
from kernbench.common.pointers import DevicePointer
from kernbench.components.builtin.transfers import footprint, rows_of
from kernbench.sim_engine.memory.strides import read_lanes
from kernbench.sim_engine.replay.math_ops import run_math
from kernbench.triton.dtypes import TritonError, dtype
from kernbench.triton.masked_lanes import after, after_product
from kernbench.triton.spins import Attempt, place_of
from kernbench.triton_emu.errors import line_of
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.tl.context import TLContext

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(_OWN)) + os.sep
PATIENCE = 150_000  #: [cycle] for which a program polls one address before it counts as a deadlock
#: Whether a file is part of kernbench, by its name: Python keeps the hash of a string, but not that of a code object.
_IS_OWN: dict[str, bool] = {}


@dataclass
class Access:
    """Bytes that a program read or wrote, recorded for the `check` of a run."""

    program: int
    pe: str
    line: str
    kind: str  #: load, store or atomic
    name: str  #: of the tensor
    addresses: Array  #: of each element
    itemsize: int
    cycle: int
    window: int = 0  #: the address of the tensor's first element


@dataclass
class Options:
    """The state that all programs of a launch share."""

    portable: bool = False  #: enforce Triton's own rules
    races: bool = False  #: record the accesses of each program
    accesses: list[Access] = field(default_factory=list)
    read: set[str] = field(default_factory=set)  #: names of the tensors that were loaded from
    poison: bool = False  #: masked lanes without `other` are NaN, or the integer that is least likely to be meant; else 0
    bare: dict[str, None] = field(default_factory=dict)  #: lines whose loads of floats leave masked lanes without a value
    left_out: Counter[str] = field(default_factory=Counter)  #: by line of a load: lanes that it left out without `other`
    #: By lines of loads and of a store: elements stored that depend on lanes which were left out.
    reached: Counter[tuple[frozenset[str], str]] = field(default_factory=Counter)
    unchanged: set[int] = field(default_factory=set)  #: ids of the ops of attempts of atomic ops that changed nothing
    twice: Counter[tuple[str, str]] = field(default_factory=Counter)  #: by line of a store and tensor: lanes beside another
    progress: int = 0  #: commands that do more than poll one address
    written: set[str] = field(default_factory=set)  #: names of the tensors that were stored to
    printed: list[str] = field(default_factory=list)  #: lines of `tl.device_print`
    notes: list[str] = field(default_factory=list)  #: of the run
    #: With `portable`, by function and variable: why the variable is not defined there to Triton's compiler.
    forgotten: dict[tuple[str, str], str] = field(default_factory=dict)
    #: With `portable`, by the line of an `if` and the variable: its type in each branch that has run.
    branch_types: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    #: For each `tl.device_assert` on values that are computed after the timing: id of the op, line, message, checked lanes.
    asserts: list[tuple[int, str, str, Array | None]] = field(default_factory=list)
    freq_ghz: float = 1.0
    windows: list[DevicePointer] = field(default_factory=list)  #: all tensors of the launch


class Program(TLContext):
    """The `tl` of one program of a Triton kernel: it issues commands with element types and the line of the kernel."""

    options: Options
    kernel: str
    _looked: tuple[Any, ...] = ()  #: last polled address, and the progress at that time
    _since: int = 0
    copies: Any = None  #: of Gluon: copies that the program has not waited for
    last_store: Any = None  #: the command of the last store
    _attempt: Attempt | None = None  #: the last atomic op on one known element, if nothing was issued since
    path: Any = None  #: in `map_elementwise`: decides conditions on elements

    @classmethod
    def of(cls, tl: TLContext, options: Options, kernel: str) -> Program:
        """Return a Program for the same program as `tl`."""
        made = cls(tl._runner, tl._program, tl._grid)
        made.options, made.kernel = options, kernel
        return made

    @property
    def pe(self) -> str:
        return self._runner.pe.name

    @property
    def number(self) -> int:
        """The number of the program in the grid; axis 0 varies fastest."""
        return self._program

    @property
    def cycle(self) -> int:
        return self._runner.now

    def program_id(self, axis: int = 0) -> int:
        """Return the index of the program along an axis, in Triton's order: axis 0 varies fastest."""
        left = self._program
        for size in self._grid[:axis]:
            left //= size
        return left % self._grid[axis] if axis < len(self._grid) else 0

    def num_programs(self, axis: int = 0) -> int:
        return self._grid[axis] if axis < len(self._grid) else 1

    # Tensors.

    def known(self, values: Array, kind: dtype) -> KernelTensor:
        """Return a tensor of known elements that has no location yet. A single number never gets one, so its line is not kept.
        """
        return self._known(values, kind.own, kernel_line() if values.ndim else "")

    def compute(
        self, op: str, operands: list[Any], shape: tuple[int, ...], kind: dtype, marked: Sequence[Any] | None = None, **how: Any
    ) -> KernelTensor:
        """Issue a math op on tensors and numbers.

        The result is computed at once if all operands are known and the result is a single number or not a float. `marked` has
        the operands as tensors, for operands that were replaced by numbers.
        """
        shape = tuple(shape)
        if shape == () and not how:
            found = of_integers(op, operands, kind) if op != "cast" else _other_integer(operands[0], kind)
            if found is not None:
                self._runner.scalar_work()
                return self.marked(self._known(found, kind.own, ""), op, operands if marked is None else marked)
        line = kernel_line()
        tensors = [one for one in operands if isinstance(one, KernelTensor)]
        for one in tensors:
            self._come(one, line)
        if shape == () and all(one.value is not None and one.value.size == 1 for one in tensors):
            self._runner.scalar_work()
            made = self._known(evaluate(op, operands, shape, kind, how), kind.own, line)
        else:
            self.options.progress += 1
            made = self._compute(op, operands, shape, kind.own, line, None, how, False)
        return self.marked(made, op, operands if marked is None else marked, **how)

    def known_integers(self, op: str, operands: tuple[int, int], kind: dtype, with_number: bool) -> KernelTensor:
        """Compute a common op on two known integers. `with_number`: one of the operands is a number that has no tensor yet."""
        found = of_integers(op, operands, kind)
        assert found is not None
        self._count += with_number
        self._runner.scalar_work()
        return self._known(found, kind.own, "")

    def marked(self, made: KernelTensor, op: str, operands: Sequence[Any], **how: Any) -> KernelTensor:
        """Return the result, marked with the operands that depend on masked lanes."""
        for one in operands:
            if isinstance(one, KernelTensor) and one.marks is not None:
                made.marks = after(op, operands, made.shape, how)
                break
        return made

    def alias(self, tile: KernelTensor, shape: tuple[int, ...]) -> KernelTensor:
        """Return the same bytes in another shape, which takes no cycles."""
        self._come(tile, kernel_line())
        shape = tuple(shape)
        self._count += 1
        made = KernelTensor(self, f"t{self._count}", shape, tile.dtype, tile.nbytes, tile.line)
        made.block, made.addr, made.flight, made.op, made.op_id = tile.block, tile.addr, tile.flight, tile.op, tile.op_id
        made.value = None if tile.value is None else tile.value.reshape(shape)
        made.marks = None if tile.marks is None else tile.marks.again(lambda lanes: lanes.reshape(shape))
        return made

    def _come(self, tile: KernelTensor, line: str) -> None:
        """Wait for integers that are being loaded; the integers are known after the load."""
        if tile.flight is not None and dtype_of(tile.dtype).kind != "float":
            self._runner.wait_implicitly(tile.flight, tile.handle_id, line)

    def multiply(
        self, a: KernelTensor, b: KernelTensor, acc: KernelTensor | None, kind: dtype, swaps: tuple[bool, bool]
    ) -> KernelTensor:
        """Issue a product to the tensor engine; `swaps` says which operand is transposed first, which takes no cycles."""
        self.options.progress += 1
        made = self.product(a, b, _kernel_frame(), acc, kind.own, "", *swaps)
        made.marks = after_product(a, b, acc, swaps)
        return made

    # Memory.

    def gather(
        self, base: int, shape: tuple[int, ...], kind: dtype, lanes: Lanes | tuple[int, ...] | None, line: str = ""
    ) -> KernelTensor:
        """Load a tile from memory: contiguous, by strides [B], or lane by lane. The program waits only if the tile is one
        element. `line` is that of the kernel, if the caller knows it.
        """
        line, runner, shape = line or kernel_line(), self._runner, tuple(shape)
        nbytes = travel = self._size(shape, kind.own, line)
        if isinstance(lanes, Lanes):
            addr, moved = self._first(base, lanes, line), lanes.at.size * kind.itemsize
            rows = lanes.rows
        else:
            addr, moved = self._in_memory(base, shape, lanes, kind.own, nbytes, line), nbytes
            rows = () if lanes is None else tuple(rows_of(shape, lanes, kind.own))
        if rows:
            travel = sum(footprint(addr + at, size, step, count, runner.pe.align) for at, size, step, count in rows)
        tile = self._new(shape, kind.own, nbytes, line, travel)
        tile.op = "dma_read"
        msg = DmaReadCmd(tile, addr, moved, self._space(addr, lanes), op_id=runner.memory.new_id(), line=line)
        msg.lanes, msg.src_strides = (lanes, None) if isinstance(lanes, Lanes) else (None, lanes)
        tile.op_id = msg.op_id
        tile.flight = flight = runner.issue(msg, line)
        runner.memory.load_issued(msg)
        if prod(shape) == 1:
            runner.wait_for(flight, "the load of " + tile.handle_id)
            self._look(base, line)
        else:
            self.options.progress += 1
        return tile

    def _look(self, base: int, line: str) -> None:
        """Check a read of one address. Raise TritonError if the program has only repeated such reads for too long."""
        seen = base, line, self.options.progress
        if seen != self._looked:
            self._looked, self._since = seen, self.cycle
        elif self.cycle - self._since > PATIENCE:
            raise TritonError(
                f"{line}: program {self.number} has waited here for {self.cycle - self._since:,} cycles, in which no program "
                "did anything but wait: what it waits for never comes. Programs of one PE run one after the other, so wait for "
                "earlier ones alone"
            )

    def scatter(self, base: int, tile: KernelTensor, lanes: Lanes | tuple[int, ...] | None, rmw: str = "") -> None:
        """Store a tile to memory, in the layouts that `gather` loads."""
        self.options.progress += 1
        line, runner = kernel_line(), self._runner
        tile = self.operand(tile, line)
        if isinstance(lanes, Lanes):
            addr, moved = self._first(base, lanes, line), lanes.at.size * lanes.itemsize
        else:
            addr, moved = self._in_memory(base, tile.shape, lanes, tile.dtype, tile.nbytes, line), tile.nbytes
        msg = DmaWriteCmd(tile, addr, moved, rmw=rmw, op_id=runner.memory.new_id(), line=line)
        msg.dst_space = self._space(addr, lanes)
        msg.lanes, msg.dst_strides = (lanes, None) if isinstance(lanes, Lanes) else (None, lanes)
        self.last_store = runner.issue(msg, line)
        runner.memory.store_issued(msg)

    def wait_for_command(self, flight: Any, what: str) -> None:
        """Wait until a command has ended."""
        self._runner.wait_for(flight, what)

    def wait_for_tile(self, tile: KernelTensor) -> None:
        """Wait until the command that makes a tile has ended."""
        if tile.flight is not None:
            self._runner.wait_for(tile.flight, "a copy to shared memory")

    def has_come(self, tile: KernelTensor) -> bool:
        """Whether the command that makes a tile has ended."""
        return tile.flight is None or tile.flight.end >= 0

    def change(self, base: int, tile: KernelTensor, lanes: Lanes, kind: dtype, rmw: str, compare: KernelTensor | None) -> Any:
        """Issue an atomic op that is computed after the timing, and return the old elements. It takes a load, then a store."""
        line, runner = kernel_line(), self._runner
        old = self.gather(base, lanes.shape, kind, lanes)
        if old.flight is not None:
            runner.wait_for(old.flight, "the load of an atomic op")
        tile = self.operand(tile, line)
        compare = None if compare is None else self.operand(compare, line)
        addr, nbytes = self._first(base, lanes, line), lanes.at.size * lanes.itemsize
        msg = DmaWriteCmd(tile, addr, nbytes, lanes=lanes, rmw=rmw, op_id=runner.memory.new_id(), line=line)
        msg.dst_space, msg.old, msg.compare = self._space(addr, lanes), old, compare
        old.value, old.op, old.op_id = None, f"atomic_{rmw}", msg.op_id
        old.flight = runner.issue(msg, line)
        runner.memory.store_issued(msg)
        return old

    def exchange(
        self, base: int, shape: tuple[int, ...], lanes: Lanes | None, kind: dtype, change: Callable[[Array], Array]
    ) -> Array | None:
        """Read, change and write known elements in one step, and return the old elements in the shape of `Lanes.spread`.

        The result is None, and nothing changes, if the elements in memory are computed after the timing. Without lanes, there
        is one element. The call takes the time of the load; the store is issued at the end of the load.
        """
        if lanes is None:
            return self._exchange_one(base, shape, kind, change)
        line, runner = kernel_line(), self._runner
        brought = self.gather(base, shape, kind, lanes, line)
        if prod(shape) != 1:
            self.options.progress -= 1
        room = self._new(shape, kind.own, brought.nbytes, line)
        if brought.flight is not None:
            runner.wait_for(brought.flight, "the load of an atomic op")
        while runner.scheduler.open.count >= runner.scheduler.queue_depth:
            runner.pause("the command queue is full", any_end=True)
        # From here on no other program runs until the new elements are in memory.
        memory, nbytes = runner.memory, lanes.at.size * lanes.itemsize
        addr = self._first(base, lanes, line)
        space = self._space(addr, lanes)
        try:
            old = read_lanes(memory.store, space, addr, lanes, kind.own)
        except ValueError:
            return None
        room.value = np.ascontiguousarray(change(old)).reshape(shape)
        if (old == room.value).all():
            self._look(base, line)
        else:
            self.options.progress += 1
        placed = MemoryWriteMsg(room.space, room.addr, room.value, op_id=memory.new_id(), line=line)
        runner.on_placed(placed, runner.now)
        msg = DmaWriteCmd(room, addr, nbytes, lanes=lanes, op_id=memory.new_id(), line=line)
        msg.dst_space = space
        runner.issue(msg, line)
        memory.exchange_issued(msg)
        return old

    def _exchange_one(
        self, base: int, shape: tuple[int, ...], kind: dtype, change: Callable[[Array], Array]
    ) -> Array | None:
        """Do `exchange` on one element.

        In a loop that only repeats this op, an attempt may find the same value as the previous attempt. The next attempt then
        follows here, without running the kernel in between. Each attempt takes the same cycles as before.
        """
        frame, runner = _kernel_frame(), self._runner
        line, last, options = line_of(frame), self._attempt, self.options
        spins = last is not None and kind.is_int() and not options.races and last.comes_again(frame)
        tiles = scalar_ops = 0
        if last is not None and spins:
            tiles, scalar_ops = self._count - last.tiles, runner.scalar_ops - last.scalar_ops
        nbytes = self._size(shape, kind.own, line)
        addr = self._in_memory(base, shape, None, kind.own, nbytes, line)
        while True:
            old, new, ops = self.swap(addr, shape, kind.own, nbytes, line, change)
            if old is None or new is None:
                self._attempt = None
                return None
            found = old.item()
            if found == new.item():
                if kind.is_int():  # zeros of floats have two signs
                    options.unchanged.update(ops)
                self._look(base, line)
            else:
                options.progress += 1
            if last is None or not spins or found != last.old:
                break
            self._count += tiles
            for _ in range(scalar_ops):
                runner.scalar_work()
        self._attempt = Attempt(id(frame), place_of(frame), found, self._count, runner.scalar_ops)
        return old

    def _space(self, addr: int, lanes: Lanes | tuple[int, ...] | None) -> str:
        """Return the memory of a tile at a physical address."""
        return str(self._runner.memory.space_of(addr + lanes.span[0] if isinstance(lanes, Lanes) else addr))

    def _first(self, base: int, lanes: Lanes, line: str) -> int:
        low, high = lanes.span
        return self._physical(base + low, high - low, line) - low


OF_INTEGERS: dict[str, Callable[[int, int], int]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")},
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


def of_integers(op: str, operands: Sequence[Any], kind: dtype) -> Array | None:
    """Compute a common op on two known integers as `evaluate` does; return None for other ops and operands."""
    function = OF_INTEGERS.get(op)
    if function is None or len(operands) != 2 or type(operands[0]) is not int or type(operands[1]) is not int:
        return None
    value = function(*operands)
    if kind.is_floating():
        return None
    if kind.is_bool():
        return np.asarray(bool(value))
    return _wrapped(value, kind)


def _wrapped(value: int, kind: dtype) -> Array:
    """Return an integer as an element of a type, whose bits it fills from the lowest on."""
    bits, (element, signed) = kind.primitive_bitwidth, _element(kind.own)
    value &= (1 << bits) - 1
    return np.asarray(value - (1 << bits) if signed and value >> bits - 1 else value, element)


@cache
def _element(own: str) -> tuple[Any, bool]:
    """Return numpy's type of an element, and whether it has a sign."""
    element = dtype_of(own).numpy
    return element, bool(np.issubdtype(element, np.signedinteger))


def _other_integer(value: Any, kind: dtype) -> Array | None:
    """Return a known integer without axes as another type of integers; None for other operands and types."""
    found = value.value if type(value) is KernelTensor and not value.shape else None
    if found is None or found.dtype.kind not in "iu" or not (kind.is_int() and not kind.is_bool()):
        return None
    return _wrapped(found.item(), kind)


def evaluate(op: str, operands: list[Any], shape: tuple[int, ...], kind: dtype, how: dict[str, Any]) -> Array:
    """Compute a math op on known operands with the arithmetic of Phase 2."""
    inputs = [one.value for one in operands if isinstance(one, KernelTensor) and one.value is not None]
    scalars = {i: one for i, one in enumerate(operands) if not isinstance(one, KernelTensor)}
    return run_math({**how, "op": op, "scalars": scalars, "shape_out": shape, "dtype": kind.own}, op, inputs)


@cache
def _discards(code: CodeType, at: int) -> bool:
    """Return whether the instruction after a call drops the result of the call."""
    # During a call of a Python function, the frame points into the inline cache behind its call instruction.
    following = next((one for one in dis.get_instructions(code) if one.offset > at), None)
    return following is not None and following.opname == "POP_TOP"


def result_is_used() -> bool:
    """Return whether the kernel uses the result of the function of this package that it is calling."""
    frame = _kernel_frame()
    return not _discards(frame.f_code, frame.f_lasti)


_RUNNING: ContextVar[Program | None] = ContextVar("kernbench_triton_program", default=None)


def enter(program: Program) -> None:
    """Make this program the one that the calling greenlet runs."""
    _RUNNING.set(program)


def running() -> Program | None:
    """Return the program of this greenlet, or None outside kernels."""
    return _RUNNING.get()


def current() -> Program:
    """Return the program of this greenlet. Outside kernels, raise TritonError."""
    found = _RUNNING.get()
    if found is None:
        raise TritonError("functions of triton.language work only inside kernels; launch a kernel with kernel[grid](...)")
    return found


def kernel_line() -> str:
    """Return the current line of the kernel as `kernel.py:12`, or an empty text outside kernels."""
    return line_of(_kernel_frame(3)) if _RUNNING.get() is not None else ""


def raised_at(frames: TracebackType | None) -> str:
    """Return the last line of a kernel in the traceback of an exception as `kernel.py:12`, or an empty text."""
    inside, line = False, ""
    while frames is not None:
        path = os.path.abspath(frames.tb_frame.f_code.co_filename)
        if path.startswith(_OWN):
            inside = True
        elif inside and not path.startswith(_PACKAGE):
            line = f"{os.path.basename(path)}:{frames.tb_lineno}"
        frames = frames.tb_next
    return line


def _kernel_frame(depth: int = 1) -> FrameType:
    """Return the innermost frame that is not of this package. The first `depth` frames are skipped."""
    frame = sys._getframe(depth)
    while True:
        file = frame.f_code.co_filename
        own = _IS_OWN.get(file)
        if own is None:
            own = _IS_OWN[file] = os.path.abspath(file).startswith(_OWN)
        if not own or frame.f_back is None:
            return frame
        frame = frame.f_back
