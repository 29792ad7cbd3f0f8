"""What a view of a topology can be of."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """All SIPs, one SIP, one cube, one PE."""

    SYSTEM = "system"
    SIP = "sip"
    CUBE = "cube"
    PE = "pe"
