"""Passes messages of kernels to components that were added to the machine (seed ADR-0020 D4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.pe_commands import MsgBase
from kernbench.components.base import COMPONENT, Clock, ComponentBase
from kernbench.components.builtin.flight import Flight, Order
from kernbench.components.builtin.part import PePart


class MessagePart(PePart):
    """Serves every message that no other component serves: each message is one job of the component that its kernel names.

    The component logs the message with its own hooks.
    """

    __slots__ = ("_going", "_names", "_next", "_targets")

    serves = (MsgBase,)
    engine_type = COMPONENT

    def __init__(self, node_id: str, clock: Clock, base: int) -> None:
        super().__init__(node_id, (), clock, base)
        self._names: tuple[str, ...] = ()
        self._next = 0
        self._targets: deque[int] = deque()  # components of the messages that are not yet passed on
        self._going: int | None = None

    def attach(self, components: Sequence[tuple[int, str, ComponentBase]]) -> None:
        """Set the components of the machine that may receive messages: position in the core, name, object."""
        self.engines = tuple([position for position, _, _ in components])
        self._names = tuple([name for _, name, _ in components])
        self.replaced = {number: component for number, (_, _, component) in enumerate(components)}
        self.load = [0] * len(components)

    def send_to(self, name: str, where: str) -> None:
        """Send the next message that is issued to this component. InputError if the machine has no such component."""
        if name not in self._names:
            there = ", ".join(self._names) or "none"
            raise InputError(
                Problem(where, f"the machine has no component with this name that derives from ComponentBase; it has {there}",
                        "to", name, "add it with `components=` of GraphEngine or Machine")
            )
        self._going = self._names.index(name)

    def orders(self, msg: Any) -> Sequence[Order]:
        target, self._going = self._going, None
        assert target is not None, "tl.issue has named the component"
        self._targets.append(target)
        number, self._next = self._next, self._next + 1
        key = self.base + number  # PEs that share a component use different keys
        self.replaced[target]._messages[key] = msg
        return (((key,), ()),)

    def choose(self) -> int:
        return self._targets.popleft()

    def ended(self, flight: Flight) -> None:
        super().ended(flight)
        messages = self.replaced[flight.engine]._messages
        for key in [key for key, msg in messages.items() if msg is flight.msg]:
            del messages[key]

    def opcode(self, msg: Any) -> str:
        return type(msg).__name__

    def unit_of(self, flight: Flight) -> str:
        return self._names[flight.engine]
