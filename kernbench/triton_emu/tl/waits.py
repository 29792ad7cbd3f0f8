"""Waits of `tl`: until commands have ended."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from kernbench.triton_emu.errors import KernelError, caller_of, line_of
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.memory.tensor import MemoryTensor
from kernbench.triton_emu.tl.math import TlMath
from kernbench.triton_emu.tl.memory import Completion

_UP, _frame = caller_of(__file__), sys._getframe


class TlWaits(TlMath):
    """The part of `tl` that waits."""

    def wait(self, *handles: Any) -> None:
        """Until these have come, or, without any, all commands so far have ended. What is pending stays pending."""
        runner = self._runner
        if not handles:
            for flight in list(runner.scheduler.open):
                runner.wait_for(flight, "all commands")
            return
        for one in handles:
            if type(one) is KernelTensor:
                self._wait_tile(one)
                continue
            if not isinstance(one, KernelTensor | Completion | MemoryTensor):
                self._refuse("wait", one, line_of(_frame(_UP)))
            if one.flight is not None and one.flight.end < 0:
                runner.wait_for(one.flight, f"tl.wait({one.handle_id})")
            if one.op_id is not None and isinstance(one, Completion | MemoryTensor) and one.op_id not in self._after:
                self._after = (*self._after, one.op_id)

    def _refuse(self, call: str, one: Any, line: str) -> NoReturn:
        raise KernelError(f"{line}: tl.{call} takes tensors and what tl.store returns, and not a {type(one).__name__}")

    def _wait_tile(self, tile: KernelTensor) -> None:
        flight = tile.flight
        if flight is not None and flight.end < 0:
            self._runner.wait_for(flight, ("tl.wait({})", tile))
        if tile.shared:
            for writer in self._writers(tile):
                self._runner.wait_for(writer, ("tl.wait({})", tile))

    def wait_any(self, *handles: Any) -> int:
        """Until one of these has come: its number among them, the first of several."""
        for one in handles:
            if not isinstance(one, KernelTensor | Completion | MemoryTensor):
                self._refuse("wait_any", one, line_of(_frame(_UP)))
        if not handles:
            raise KernelError(f"{line_of(_frame(_UP))}: tl.wait_any takes at least one thing to wait for")
        while True:
            for number, one in enumerate(handles):
                if one.flight is None or one.flight.end >= 0:
                    return number
            self._runner.pause(f"tl.wait_any of {len(handles)}", None, True)
