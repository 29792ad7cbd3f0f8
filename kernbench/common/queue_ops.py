"""The commands of queues between PEs: a tile to a neighbour, and the next one from it. They are compiled, like those of
`pe_ops`.
"""

from __future__ import annotations

from typing import Any, Unpack

from kernbench.common.dtypes import Array
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_ops import Command, Record


class IpcqSendCmd(Command):
    """A tile into the queue to a neighbour: the message itself. Its record is an `ipcq_copy`, made when it has arrived.

    PE_IPCQ writes what the tile was at its issue, then where the message is.
    """

    def __init__(
        self,
        handle: TensorHandle,
        ring: Any,
        **record: Unpack[Record],
    ) -> None:
        super().__init__(**record)
        self.handle: TensorHandle | None = handle  #: None after the message has arrived
        self.ring = ring  #: the queue (components/builtin/ipcq_ring.py)
        self.flight: Any = None  #: while it waits for a slot
        self.ready = 0  #: earliest cycle in which it can start
        self.shape: tuple[int, ...] = ()
        self.dtype = ""
        self.nbytes = 0
        self.value: Array | None = None  #: None: pending
        self.src = 0  #: address in the sender's scratchpad
        self.slot = -1  #: address of its slot
        self.arrived = False
        self.visible = 0  #: [cycle] from which its receiver may use it, after its arrival
        self.command = -1  #: id of its transfer in a traced run
        self.parts: Any = None  #: on its way through a switch: the messages of all rings (components/builtin/switch_queue.py)
        self.mismatch = ""  #: why they could not be combined


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
        self.message: Any = None  #: an `IpcqSendCmd`, after its arrival
