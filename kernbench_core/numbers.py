"""The numbers that the core shares with Python, and their names; they need nothing else of the core.

All layers of `kernbench` import these numbers from this module, so none of them is defined twice.
"""

from __future__ import annotations

from sys import intern

from kernbench_core.trace.format import (
    ALWAYS,
    COLUMN,
    CYCLE,
    NO_UNIT,
    NOTHING,
    TEXT,
    TEXT_OF_COLUMN,
    TEXT_OF_VALUE,
    TOKEN_ENDS,
    UNIT_OF_ENTRY,
    VALUE,
)
from kernbench_core.types import COMM_CHANNEL, Allocation, Channel, DmaState, EngineType, Opkind, Overlap, StallReason, Status

__all__ = [
    "ALWAYS",
    "CHANNELS",
    "COLUMN",
    "COMM_CHANNEL",
    "CYCLE",
    "DMA_STATES",
    "NOTHING",
    "NO_UNIT",
    "STALLS",
    "STATUSES",
    "TEXT",
    "TEXT_OF_COLUMN",
    "TEXT_OF_VALUE",
    "TOKEN_ENDS",
    "TRANSFER_CHANNELS",
    "UNIT_OF_ENTRY",
    "VALUE",
    "Allocation",
    "Channel",
    "DmaState",
    "EngineType",
    "Opkind",
    "Overlap",
    "StallReason",
    "Status",
]

STATUSES: tuple[str, ...] = tuple(one.name.lower() for one in Status)  #: `running`, `done`, ...: the status of a run
TRANSFER_CHANNELS: tuple[str, ...] = tuple(intern(one.name.lower()) for one in Channel)  # channels of loads and stores
CHANNELS: tuple[str, ...] = (*TRANSFER_CHANNELS, "comm")  #: channels of DMA engines
DMA_STATES: tuple[str, ...] = tuple(one.name.removeprefix("DMA_") for one in DmaState)
STALLS: tuple[str | None, ...] = (None, *(one.name.lower() for one in StallReason if one))  #: None: not stalled
