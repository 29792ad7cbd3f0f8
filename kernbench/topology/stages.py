"""What the stages of the builder take: time and memory, for people to look at. Nothing that is built depends on it."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

STAGES = ("read and validate", "cube mesh", "system", "IO chiplets", "cubes", "edges", "views")
_STATM = Path("/proc/self/statm")


@dataclass(slots=True)
class Stage:
    """One stage of the builder, all SIPs together."""

    name: str
    seconds: float = 0.0
    grown: int = 0  #: [byte] of resident memory that the process had more after it


class StageClock:
    """Adds up what stages take; a stage may be entered many times."""

    def __init__(self) -> None:
        self.stages = {name: Stage(name) for name in STAGES}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Around a part of a stage."""
        spent, memory, started = self.stages[name], resident_bytes(), perf_counter()
        yield
        spent.seconds += perf_counter() - started
        spent.grown += resident_bytes() - memory


def resident_bytes() -> int:
    """Resident memory of this process, of which a part may be free again; where the system does not say, its peak."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
