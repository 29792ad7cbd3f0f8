"""Waits of `tl`: until commands have ended."""

from __future__ import annotations

from typing import Any, NoReturn

from kernbench.triton_emu.errors import KernelError, line_of
from kernbench.triton_emu.frames import caller
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.memory.tensor import MemoryTensor
from kernbench.triton_emu.tl.math import TlMath
from kernbench.triton_emu.tl.memory import Completion


class TlWaits(TlMath):
    """The part of `tl` that waits."""

    def wait(self, *handles: Any) -> None:
        """Wait until the commands of these tensors and handles have ended; without arguments, until all commands issued so far
        have ended.

        `handles`: tensors, and the handles of `store`, `send` and `composite`.

        Pending elements stay pending. Raises KernelError for anything but tensors and the handles of `store`, `send` and
        `composite`.

        >>> def kernel(x, tl):
        ...     tile = tl.load(x, (2,), "i64", wait=False)
        ...     tl.wait(tile)
        ...     return tile.tolist()
        >>> evaluate(kernel, [1, 2])
        [1, 2]
        """
        runner = self._runner
        if not handles:
            for flight in list(runner.scheduler.open):
                runner.wait_for(flight, "all commands")
            return
        for one in handles:
            if type(one) is KernelTensor:
                self.wait_tile(one)
                continue
            if not isinstance(one, KernelTensor | Completion | MemoryTensor):
                self._refuse("wait", one, line_of(caller()))
            if one.flight is not None and one.flight.end < 0:
                runner.wait_for(one.flight, f"tl.wait({one.handle_id})")
            if one.op_id is not None and isinstance(one, Completion | MemoryTensor) and one.op_id not in self._after:
                self._after = (*self._after, one.op_id)

    def _refuse(self, call: str, one: Any, line: str) -> NoReturn:
        raise KernelError(f"{line}: tl.{call} takes tensors and what tl.store returns, and not a {type(one).__name__}")

    def wait_tile(self, tile: KernelTensor) -> None:
        flight = tile.flight
        if flight is not None and flight.end < 0:
            self._runner.wait_for(flight, ("tl.wait({})", tile))
        if tile.shared:
            for writer in self._writers(tile):
                self._runner.wait_for(writer, ("tl.wait({})", tile))

    def wait_any(self, *handles: Any) -> int:
        """Wait until the command of one argument has ended; return the position of this argument, or the first position if
        several commands have ended.

        `handles`: as in `wait`.

        Raises KernelError without arguments, and in the same cases as `wait`.

        >>> def kernel(x, tl):
        ...     first, second = (tl.load(x, (2,), "i64", wait=False) for _ in range(2))
        ...     return tl.wait_any(first, second)
        >>> evaluate(kernel, [1, 2])
        0
        """
        for one in handles:
            if not isinstance(one, KernelTensor | Completion | MemoryTensor):
                self._refuse("wait_any", one, line_of(caller()))
        if not handles:
            raise KernelError(f"{line_of(caller())}: tl.wait_any takes at least one thing to wait for")
        while True:
            for number, one in enumerate(handles):
                if one.flight is None or one.flight.end >= 0:
                    return number
            self._runner.pause(f"tl.wait_any of {len(handles)}", None, True)
