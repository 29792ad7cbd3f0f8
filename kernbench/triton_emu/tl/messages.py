"""User-defined messages: `tl.issue` sends a message to a component that was added to the machine (seed ADR-0020 D4)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kernbench.common.pe_commands import MsgBase
from kernbench.triton_emu.errors import KernelError, line_of
from kernbench.triton_emu.tl.memory import Completion

if TYPE_CHECKING:
    from kernbench.triton_emu.kernel_runner import KernelRunner


class Issued(Completion):
    """The result of `tl.issue`; `tl.wait` waits until the component has completed the message."""

    @property
    def handle_id(self) -> str:
        """The name of the message in errors and states."""
        return f"the {self.known_name} to {self.target}"


class TlMessages:
    """The part of `tl` that issues messages."""

    _runner: KernelRunner

    def issue(self, msg: MsgBase, *, to: str, wait: bool = False) -> Issued:
        """Send a message to a component of the machine; the message becomes one job of that component.

        `msg`: an object of a class that derives from `MsgBase`. If its `data_op` is true, the op log records the message when
        the component has completed the job. `to`: the name under which the component was added; its class derives from
        `ComponentBase`. `wait`: if True, wait for the end of the job. Returns a handle for `wait`.

        Raises KernelError for any other object, and InputError for an unknown component.

        >>> from kernbench.common.pe_commands import MsgBase
        >>> from kernbench.components.base import ComponentBase
        >>> class Doorbell(MsgBase):
        ...     pass
        >>> class Mailbox(ComponentBase):
        ...     job = None
        ...     def accept(self, job, now):
        ...         self.job = job.id
        ...         return now + 9
        ...     def step(self, now):
        ...         if self.job is not None:
        ...             self.complete(self.job)
        ...         self.job = None
        ...         return kb.NEVER
        >>> @kb.bench(name="ring", description="rings a doorbell")
        ... def ring(ctx):
        ...     ctx.launch("ring", lambda tl: tl.issue(Doorbell(), to="mailbox", wait=True), grid=1)
        >>> engine = kb.GraphEngine("single_cube", components={"mailbox": Mailbox})
        >>> engine.run(ring).status
        'done'
        """
        line = line_of(sys._getframe(1))
        runner = self._runner
        part = runner.messages
        if not isinstance(msg, MsgBase) or type(msg).__module__.startswith("kernbench."):
            rule = "tl.issue takes an object of a class of your own that derives from MsgBase"
            raise KernelError(f"{line}: {rule}, and not a {type(msg).__name__}")
        part.send_to(to, line)
        if getattr(msg, "data_op", False):
            for name, value in (("line", line), ("op_id", runner.memory.new_id())):
                if not getattr(msg, name, None):
                    setattr(msg, name, value)
        done = Issued.__new__(Issued)
        done.flight = flight = runner.issue(msg, line)
        done.op_id, done.known_name, done.number, done.target = getattr(msg, "op_id", None), type(msg).__name__, 0, to
        if wait:
            runner.wait_for(flight, done.handle_id)
        return done
