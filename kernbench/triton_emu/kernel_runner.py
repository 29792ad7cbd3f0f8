"""Runs the programs of one PE as greenlets inside the core's run (seed ADR-0020 D3). It logs nothing.

The kernel issues commands directly, and switches to the core only where it waits. It is resumed in P1 of the cycle in which
its wait has ended.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from greenlet import GreenletExit, getcurrent, greenlet

from kernbench.common.dtypes import dtype_of
from kernbench.common.pe_commands import CompositeCmd, MsgBase
from kernbench.common.pe_ops import DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.common.queue_ops import IpcqRecvCmd, IpcqSendCmd
from kernbench.components.base import NEVER
from kernbench.components.builtin.flight import Flight
from kernbench.components.builtin.ipcq_ring import Ring
from kernbench.components.builtin.pe_cpu import CommandSource
from kernbench.components.builtin.pe_scheduler import PeScheduler
from kernbench.triton_emu.errors import KernelError, StrictWaitError, check_ran, kernel_line, line_of
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.launch import ALONE, Launch, PeFacts, PeState, PeWork
from kernbench.triton_emu.memory.side import MemorySide
from kernbench.triton_emu.memory.tensor import MemoryTensor
from kernbench.triton_emu.scratchpad import Block, Scratchpad
from kernbench.triton_emu.user_code import failure_of, strayed

_NEVER = NEVER
_RUNS = -1  # in the place of a cycle: the kernel does not wait
Reason = str | tuple[str, KernelTensor]  #: the text of a wait; the name of its tile is inserted only when the text is read
MakeContext = Callable[["KernelRunner", int, tuple[int, ...]], Any]


class KernelRunner(CommandSource):
    """The `CommandSource` of a PE."""

    def __init__(
        self,
        pe: PeFacts,
        scheduler: PeScheduler,
        memory: MemorySide,
        launches: Sequence[Launch],
        make_context: MakeContext,
        *,
        scalar_cycles: int = 0,
        strict_wait: bool = False,
    ) -> None:
        super().__init__()
        self.pe = pe
        self.scheduler = scheduler
        self.memory = memory
        self.group = ALONE  #: whose queues were installed
        self._slots: list[tuple[Ring, Block]] = []  # of queues, in the scratchpad
        self.pad = Scratchpad(pe.tcm_base, pe.tcm_bytes, pe.tcm_line)
        self.scalar_cycles, self.strict_wait = scalar_cycles, strict_wait
        self.now = 0
        self.error: BaseException | None = None  #: what a kernel raised
        self.scalar_ops = 0  #: integer ops on known operands so far
        self.implicit_waits = 0
        self.implicit_wait: Callable[[int], None] | None = None  #: called with the number of each source line
        self.messages: Any = None  #: the part of the PE that hands messages to added components (`MessagePart`)
        self.on_placed: Callable[[Any, int], None] = _nothing  #: of the PE's processor: known elements went into the scratchpad
        self.line_of = line_of
        self._launches, self._make_context = launches, make_context
        self._launch: Launch | None = None
        self._work: PeWork | None = None
        self._next_program, self._begun = 0, False
        self._over = self._dropped = False  # whether its program has ended and is not resumed any more
        self._before: tuple[int, ...] = ()  # ids of commands in a traced run: what ended the launch before,
        self._after: tuple[int, ...] = ()  # and what let this one begin
        self.strands: Any = None  #: of a program that runs kernels side by side
        self.alone = False  #: the program runs one slice of a collective, and no other slice waits (`ccl.pipeline`)
        self.waited: Any = None  #: the last tile that this slice waited for
        self._greenlet: Any = None
        self._enter = self._leave = _no_switch  # into the greenlet, and out of it
        self._failed: KernelError | None = None
        # The condition for which a paused kernel waits.
        self._reason: Reason = ""
        self._since = _RUNS  # [cycle] it waits since then
        self._wanted: Flight | None = None
        self._any = False  # with `next_due`: the cycle in which a kernel that waits for a time continues

    # The side of the PE's processor.

    def begin(self, launch: int) -> None:
        self._launch = self._launches[launch]
        self._work = self._launch.work_of(self.pe.name)
        self._next_program = 0
        self._begun = False
        if self.scheduler.after is not self._after:
            self._before = self.scheduler.after
        self.scheduler.visible = 0
        self.scheduler.after = self._after = (*self._launch.after.get(self.pe.name, ()), *self._before)
        self.memory.begin()

    def resume(self, now: int) -> bool:
        self.now = now
        launch, work = self._launch, self._work
        assert launch is not None and work is not None
        if not self._begun:
            self._begun = True
            launch.began(self.pe.name, now)
        if self._failed is not None:
            self._fail(self._failed)
        while True:
            if self._greenlet is None:
                if self.scheduler.open.count:
                    return False
                if self._next_program == len(work.programs):
                    launch.ended(self.pe.name, now, self.scheduler.after)
                    self._launch = self._work = None
                    return True
                if self.pad.held > len(self._slots):  # someone kept tiles of the program before: it is over
                    self.new_pad([ring for ring, _ in self._slots])
                for ring, _ in self._slots:
                    ring.free_all()
                self._greenlet = greenlet(self._run_program)
                self._greenlet.runs_for = self._who()
                self._enter, self._leave = self._greenlet.switch, self._greenlet.parent.switch
                self._next_program += 1
                self._switch((work, work.programs[self._next_program - 1]))
            elif self._wanted is not None or self._any or now < self.next_due < _NEVER:
                return False
            else:
                self.next_due = _NEVER
                self._since = _RUNS
                self._switch(())
            if self._over:
                self._over, self._greenlet = False, None
                self._enter = self._leave = _no_switch
            elif self._since == _RUNS:
                self._fail(strayed(self._who(), self._greenlet.gr_frame))

    def _switch(self, given: tuple[Any, ...]) -> None:
        """Into the program, until it pauses or is over. KernelError if it has thrown something out of its greenlet."""
        try:
            self._enter(*given)
        except KeyboardInterrupt:
            raise
        except BaseException:
            if self.error is not None:
                raise
            error = strayed(self._who(), self._greenlet.gr_frame)
            error.add_note(self._where())
            self.error = error
            raise error from None

    def new_pad(self, rings: Sequence[Ring]) -> None:
        """An empty scratchpad, but for the slots of queues. ScratchpadFullError if there is no room for them."""
        pe = self.pe
        pad, slots = Scratchpad(pe.tcm_base, pe.tcm_bytes, pe.tcm_line), []
        for ring in rings:
            size = -(-ring.slot_room // pe.tcm_line) * pe.tcm_line
            who = ("ipcq", "u8", (ring.slots, ring.slot_room), f"the queue from {ring.source}")
            block = pad.take(ring.slots * size, who)
            if block is None:
                raise pad.refusal(ring.slots * size, who)
            slots.append((ring, block))
            ring.lay_out(block.addr, size)
        self.pad, self._slots = pad, slots

    @property
    def wanted(self) -> Flight | None:
        """The command that the kernel waits for; None if it waits for none, or for any."""
        return self._wanted

    def _fail(self, error: KernelError) -> NoReturn:
        """The result of a command ends the program at its current line."""
        self.error = error
        if self._greenlet is not None:
            self._greenlet.throw(error)
            error.add_note(self._where())  # the program has caught it
        raise error

    def ended(self, flight: Flight) -> bool:
        msg = flight.msg
        flight.msg = None  # handles and messages refer to each other until here
        try:
            self._settle(msg)
        except KernelError as error:
            self._failed, self._wanted, self._any, self.next_due = error, None, False, _NEVER
            return True
        if self._any or flight is self._wanted:
            self._wanted, self._any = None, False
        elif self._greenlet is not None or self.scheduler.open.count:
            return False
        if flight.command >= 0:
            self.scheduler.after = (flight.command,)
            self.scheduler.visible = _visible(msg)
        return True

    def _settle(self, msg: Any) -> None:
        """Update tensors and memory at the end of a command. KernelError if the result is not possible."""
        kind = type(msg)
        if kind is GemmCmd:
            product: GemmCmd = msg
            tile: Any = product.out  # a KernelTensor
            tile.flight = None
        elif kind is MathCmd:
            op: MathCmd = msg
            tile = op.out
            tile.flight = None
            if tile.whole is None:
                tile.value = op.value
        elif kind is IpcqSendCmd:
            return
        elif kind is IpcqRecvCmd:
            _take(msg)
        elif kind is DmaReadCmd or (kind is not DmaWriteCmd and isinstance(msg, DmaReadCmd)):
            read: DmaReadCmd = msg
            tile = read.handle
            tile.flight = None
            value = self.memory.load_ended(read)
            tile.value = value if tile.whole is None else None  # the commands in a component are pending
        elif isinstance(msg, DmaWriteCmd):
            written: DmaWriteCmd = msg
            self.memory.store_ended(written)
            if written.old is not None:
                tile = written.old
                tile.flight = None
        elif isinstance(msg, CompositeCmd):
            self.memory.composite_ended(msg)
            assert isinstance(msg.work.out, MemoryTensor)
            msg.work.out.flight = None
        elif isinstance(msg, MsgBase):  # of a class of the user's own: there are no tensors
            return
        else:
            tile = msg.out
            tile.flight = None
            if isinstance(msg, MathCmd) and tile.whole is None:
                tile.value = msg.value

    # The side of the kernel.

    def issue(self, msg: Any, line: str) -> Flight:
        """Give a command to the scheduler; wait for room in its queue first."""
        scheduler = self.scheduler
        while scheduler.open.count >= scheduler.queue_depth:
            self.pause("the command queue is full", None, True)
        return scheduler.issue(msg, self.now, line)

    def wait_for(self, flight: Flight, reason: Reason) -> None:
        """Until a command has ended."""
        while flight.end < 0:
            self.pause(reason, flight)

    def wait_implicitly(self, flight: Flight, name: str, line: str) -> None:
        """Called when a command needs data that are still in flight; an error if waits are strict."""
        if flight.end >= 0:
            return
        if self.strict_wait:
            raise StrictWaitError(
                f"{line}: {name} is used, but what makes it ({flight.line}) has not ended in cycle {self.now}; "
                "call tl.wait on it first, or run without strict waits"
            )
        self.implicit_waits += 1
        if self.implicit_wait is not None:
            self.implicit_wait(int(line.rpartition(":")[2]))
        self.wait_for(flight, f"{name} of {flight.line} (implicit wait)")

    def scalar_work(self, ops: int = 1) -> None:
        """Time of integer ops on known operands."""
        self.scalar_ops += ops
        if self.scalar_cycles:
            self.pause("scalar work", None, False, self.now + ops * self.scalar_cycles)

    def pause(self, reason: Reason, flight: Flight | None = None, any_end: bool = False, until: int = _NEVER) -> None:
        """Switch to the core until a command (or any) has ended, or a cycle has come."""
        if self.strands is not None and self.strands.paused(reason, flight, any_end, until):
            return
        if getcurrent() is not self._greenlet:
            raise strayed(self._who(), sys._getframe())
        self._reason, self._since = reason, self.now
        self._wanted, self._any, self.next_due = flight, any_end, until
        try:
            self._leave()
        except GreenletExit:  # the machine is gone
            self._dropped = True
            raise
        self._reason = ""

    def _run_program(self, work: PeWork, program: int) -> None:
        context = self._make_context(self, program, work.grid)
        try:
            if "tl" in work.kwargs or not _by_keyword(work.kernel):
                made = work.kernel(*work.args, context, **work.kwargs)
            else:
                made = work.kernel(*work.args, tl=context, **work.kwargs)
            check_ran(made, "the kernel " + work.kernel.__name__)
            self._over = True
        except BaseException as error:
            if self._dropped:
                raise
            self.error = found = failure_of(error, self._who(), self._where())
            if found is error:
                raise
            raise found from None

    def _who(self) -> str:
        """`the kernel scale`, for errors."""
        return "the kernel" if self._work is None else f"the kernel {self._work.kernel.__name__}"

    def _where(self) -> str:
        """Which program runs, for errors."""
        assert self._launch is not None and self._work is not None
        program = self._work.programs[self._next_program - 1]
        return f"in program {program} of {self._launch.name} on {self.pe.name}, cycle {self.now}"

    def state(self) -> PeState:
        """The state of the kernel."""
        work, running = self._work, self._greenlet
        program = None
        if work is not None and running is not None:
            program = work.programs[self._next_program - 1]
        reason = self._reason
        if isinstance(reason, tuple):
            reason = reason[0].format(reason[1].handle_id)
        waits = reason if running is not None and self._since != _RUNS else ""
        if work is not None and running is None and self.scheduler.open.count:
            waits = "the program's last commands"
        return PeState(
            pe=self.pe.name,
            launch="" if self._launch is None else self._launch.name,
            program=program,
            line="" if running is None else kernel_line(running.gr_frame),
            waits=waits,
            since=self._since if running is not None and self._since != _RUNS else None,
            in_flight=self.scheduler.open.count,
            implicit_waits=self.implicit_waits,
        )


def _visible(msg: Any) -> int:
    """The cycle from which a received message could be used; 0 for other commands, and for messages without flags."""
    if type(msg) is not IpcqRecvCmd:
        return 0
    received: IpcqRecvCmd = msg
    ring: Ring = received.ring
    message: IpcqSendCmd = received.message
    return message.visible if ring.in_scratchpad and ring.flag_cycles else 0


def _take(msg: IpcqRecvCmd) -> None:
    """A message has arrived: return its tensor. KernelError if the shape or type differs from that of the receive."""
    tile: KernelTensor = msg.handle  # type: ignore[assignment]  # of kernels it is one
    message: IpcqSendCmd = msg.message
    ring: Ring = msg.ring
    tile.flight = None
    if message.mismatch:
        raise KernelError(f"{msg.line}: {message.mismatch}")
    if message.shape != tile.shape or (message.dtype != tile.dtype and dtype_of(message.dtype) is not dtype_of(tile.dtype)):
        raise KernelError(
            f"{msg.line}: {ring.target} receives {tile.dtype}{list(tile.shape)}, but {ring.source} sent "
            f"{message.dtype}{list(message.shape)} ({message.line}); send and receive in the same order, with the same shapes"
        )
    tile.value = message.value
    tile.op_id = message.op_id if ring.in_scratchpad else msg.op_id


def _nothing(msg: Any, now: int) -> None:
    """Nobody logs."""


def _no_switch(*args: Any) -> None:
    """No program runs."""


#: Kernels by whether they take `tl` by its name: all PEs of a launch ask for the same kernel.
_known: WeakKeyDictionary[Callable[..., Any], bool] = WeakKeyDictionary()


def _by_keyword(kernel: Callable[..., Any]) -> bool:
    """Whether a kernel takes `tl` by its name."""
    try:
        found = _known.get(kernel)
        if found is None:
            found = _known[kernel] = _names_tl(kernel)
    except TypeError:  # an object without a hash or weak references
        found = _names_tl(kernel)
    return found


def _names_tl(kernel: Callable[..., Any]) -> bool:
    found = inspect.signature(kernel).parameters.get("tl")
    return found is not None and found.kind is not inspect.Parameter.POSITIONAL_ONLY
