"""The commands of queues between PEs: send a tile to a neighbour, and receive the next tile from it. The commands are compiled,
like those of `pe_ops`.
"""

from __future__ import annotations

from typing import Any, Unpack

from kernbench.common.dtypes import Array
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_ops import Command, Record


class IpcqSendCmd(Command):
    """Send a tile into the queue to a neighbour; the command is also the message. The op log records an `ipcq_copy` when the
    message has arrived.

    PE_IPCQ sets the fields: first those of the tile at issue, then the location of the message.
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
        self.flight: Any = None  #: set while the message waits for a slot
        self.ready = 0  #: the earliest cycle in which the message can start
        self.shape: tuple[int, ...] = ()
        self.dtype = ""
        self.nbytes = 0
        self.value: Array | None = None  #: None: pending
        self.src = 0  #: address in the scratchpad of the sender
        self.slot = -1  #: address of its slot
        self.arrived = False
        self.visible = 0  #: [cycle] after arrival: the cycle from which the receiver may use the message
        self.command = -1  #: id of the message's transfer in a traced run
        self.parts: Any = None  #: in a message through a switch: the messages of all rings (components/builtin/switch_queue.py)
        self.mismatch = ""  #: why the messages could not be combined


class IpcqRecvCmd(Command):
    """Receive the next message of a queue from a neighbour; `handle` is the location at which the tile will be used."""

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
        self.number = number  #: number of the message, from 0 on
        self.slot = slot  #: address of its slot
        self.message: Any = None  #: the `IpcqSendCmd`, after its arrival
