"""The commands of queues between PEs: a tile to a neighbour, and the next one from it. Compiled, as those of `pe_ops`."""

from __future__ import annotations

from typing import Any, Unpack

from kernbench.common.handles import TensorHandle
from kernbench.common.pe_ops import Command, Record


class IpcqSendCmd(Command):
    """A tile into the queue to a neighbour. Its record is an `ipcq_copy`, made when it has arrived."""

    def __init__(
        self,
        handle: TensorHandle,
        ring: Any,
        **record: Unpack[Record],
    ) -> None:
        super().__init__(**record)
        self.handle = handle
        self.ring = ring  #: the queue (components/builtin/ipcq_ring.py)
        self.message: Any = None  #: what is on its way


class IpcqRecvCmd(Command):
    """The next message of a queue from a neighbour; `handle` is where it is to be used."""

    def __init__(
        self,
        handle: TensorHandle,
        ring: Any,
        number: int,
        slot: int,
        **record: Unpack[Record],
    ) -> None:
        super().__init__(**record)
        self.handle = handle
        self.ring = ring  #: the queue
        self.number = number  #: of the message, from 0 on
        self.slot = slot  #: address of its slot
        self.message: Any = None  #: once it has come
