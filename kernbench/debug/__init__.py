"""Time travel: a run that goes forward and back, with breakpoints, watch expressions and waits (docs/reference/debug.md)."""

from kernbench.debug.difference import Difference
from kernbench.debug.session import Breakpoint, Session, Stop
from kernbench.debug.state import State
from kernbench.debug.waits import Wait

__all__ = ["Breakpoint", "Difference", "Session", "State", "Stop", "Wait"]
