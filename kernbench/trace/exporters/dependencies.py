"""Which commands a timeline joins by arrows: from a dependency to what waited for it, where both are in the trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernbench.trace.reader import Trace

_FIELDS = {
    "CMD_ENQUEUE": ("t_cycle", "cmd_id", "deps"),
    "CMD_START": ("t_cycle", "cmd_id"),
    "CMD_END": ("t_cycle", "cmd_id"),
}


class Dependencies:
    """The arrows of a trace, numbered from 1 on; each begins at the dependency's slice and ends at the other command's.

    The file is read once for this, so that no arrow begins that never ends.
    """

    def __init__(self, trace: Trace) -> None:
        deps, spans = _read(trace)
        self._leaving: dict[int, list[tuple[int, int]]] = {}
        self._arriving: dict[int, list[tuple[int, int]]] = {}
        self._drawn: set[int] = set()
        self.drawn = 0  #: arrows that have arrived
        number = 0
        for command, before in deps.items():
            for dependency in dict.fromkeys(before):
                if _follows(spans, dependency, command):
                    number += 1
                    self._leaving.setdefault(dependency, []).append((number, command))
                    self._arriving.setdefault(command, []).append((number, dependency))

    def draw(self, command: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A command is drawn: the arrows that leave it, and those that arrive. Only its first span has any."""
        if command in self._drawn:
            return (), ()
        leaving = tuple(number for number, other in self._leaving.pop(command, ()) if other not in self._drawn)
        arriving = tuple(number for number, other in self._arriving.pop(command, ()) if other in self._drawn)
        self._drawn.add(command)
        self.drawn += len(arriving)
        return leaving, arriving

    def ordered(self, commands: Sequence[int]) -> Iterator[int]:
        """Positions in `commands`, of one cycle, in an order in which dependencies come first."""
        position = {command: i for i, command in reversed(list(enumerate(commands)))}
        seen: set[int] = set()
        for i in range(len(commands)):
            path = [i]
            while path:
                before = [
                    position[other]
                    for _, other in self._arriving.get(commands[path[-1]], ())
                    if other in position and position[other] not in seen and position[other] not in path
                ]
                if before:
                    path.append(before[0])
                    continue
                last = path.pop()
                if last not in seen:
                    seen.add(last)
                    yield last


def _read(trace: Trace) -> tuple[dict[int, list[int]], dict[int, tuple[int, int]]]:
    """Dependencies by command, and first start and end of every command that is drawn."""
    deps: dict[int, list[int]] = {}
    spans: dict[int, tuple[int, int]] = {}
    open_since: dict[int, int] = {}
    for records in trace.batches(only=_FIELDS):
        for record in records:
            name = record.event.name
            if name == "CMD_ENQUEUE":
                if record.deps:
                    deps[record.cmd_id] = record.deps
            elif name == "CMD_START":
                open_since.setdefault(record.cmd_id, record.t_cycle)
            elif name == "CMD_END":
                start = open_since.pop(record.cmd_id, record.t_cycle)
                spans.setdefault(record.cmd_id, (start, record.t_cycle))
    for command, start in open_since.items():
        spans.setdefault(command, (start, _NEVER))
    return deps, spans


_NEVER = 1 << 200


def _follows(spans: dict[int, tuple[int, int]], dependency: int, command: int) -> bool:
    """Whether both are drawn, one after the other."""
    if dependency == command or dependency not in spans or command not in spans:
        return False
    return spans[dependency][1] <= spans[command][0]
