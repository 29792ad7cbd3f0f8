"""The explanation of a run's length: its critical path, the cycles that each resource costs on this path, and the history of
each command.

`explain(open_trace("run.jsonl")).sentence` is the answer in short.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.look.palette import cause_look
from kernbench.trace.reader import Trace
from kernbench.trace.why.causes import CauseShare, Span, totals
from kernbench.trace.why.critical_path import Stretch, UnlawfulError, critical_path
from kernbench.trace.why.history import Command, History, check_lawful, read_history, unlawful
from kernbench.trace.why.spans import Stories

MAX_GROUPS = 4  # groups that the sentence names
LEAST_SHARE = Fraction(1, 100)  # a group with a smaller share of the run's cycles is not named in the sentence
MAX_NAMES = 4  # most resources that the sentence names one by one
MAX_LINKS = 2  # at most this many of the names are links, because names of links are long


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of the critical path by cause and resource."""

    cause: str
    resource: str
    cycles: Fraction
    commands: int  #: the number of commands with such cycles on the path


@dataclass(frozen=True, slots=True)
class Group:
    """A group of causes that has one name for readers, such as the bandwidth of the DRAM or the work of the tensor engines."""

    name: str
    resources: tuple[str, ...]  #: the most expensive first; empty if the name of the group already says the resource
    cycles: Fraction
    waiting: Fraction = Fraction(0)  #: [cycle] the part of `cycles` that is waiting; pages and pictures hatch this part


@dataclass(frozen=True, slots=True)
class Story:
    """One command: its cycles from readiness to end."""

    command: Command
    ready: int | None  #: None if a dependency never completed
    after: Command | None  #: the command whose end made this command ready; None if it was ready from cycle 0
    spans: tuple[Span, ...]
    critical: int  #: the command's cycles on the critical path


class Why:
    """A run explained."""

    def __init__(self, history: History, path: str) -> None:
        self.history = history
        self._file = path
        self._stories = Stories(history)
        try:
            self.path: list[Stretch] = critical_path(self._stories)
        except UnlawfulError as error:
            raise unlawful(path, str(error)) from None
        self.costs: list[Cost] = _costs(self.path)
        self.groups: list[Group] = _groups(self.costs, self.path, history)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return _sentence(self.groups, self.history.cycles)

    def story(self, op: int) -> Story:
        """The story of a command by its id; InputError if the trace has none."""
        command = self.history.by_id.get(op)
        if command is None:
            raise InputError(Problem(self._file, "the trace has no command with this id", "op", op))
        critical = sum(stretch.end - stretch.start for stretch in self.path if stretch.command is command)
        spans = tuple(self._stories.spans(command))
        return Story(command, self._stories.ready(command), self._stories.why_ready(command), spans, critical)


def explain(trace: Trace) -> Why:
    """The explanation of a trace of level `full`. InputError if it lacks events."""
    history = read_history(trace)
    check_lawful(history, trace.path)
    return Why(history, trace.path)


def explain_or_error(trace: Trace) -> Why | InputError:
    """The explanation of a trace, or the error that says why the trace has none, for pages that show one or the other."""
    try:
        return explain(trace)
    except InputError as error:
        return error


def merged(spans: Iterable[Span]) -> list[CauseShare]:
    """The parts of some spans, in order of appearance; parts with equal cause, resource, blockers and bank are added up."""
    # numerators by denominator: integers add up faster than fractions
    found: dict[tuple[str, str, tuple[int, ...], int | None], dict[int, int]] = {}
    for span in spans:
        for part in span.parts:
            sums = found.setdefault((part.cause, part.resource, part.by, part.bank), {})
            sums[part.cycles.denominator] = sums.get(part.cycles.denominator, 0) + part.cycles.numerator
    return [
        CauseShare(cause, resource, sum((Fraction(top, below) for below, top in sums.items()), Fraction(0)), by, bank)
        for (cause, resource, by, bank), sums in found.items()
    ]


def names(resources: Iterable[str]) -> str:
    """Names of resources in short form: `dram.ch0..7`, `te0, te2`, `9 links`."""
    given = list(resources)
    links = [name for name in given if name.startswith("noc.") or "-" in name]
    runs: list[tuple[str, int, int]] = []
    numbered = [(name, re.fullmatch(r"(.*?)([0-9]{1,9})", name)) for name in given if name not in links]
    places = sorted((m[1], int(m[2])) for _, m in numbered if m is not None)
    for prefix, number in places:
        if runs and runs[-1][0] == prefix and runs[-1][2] + 1 == number:
            runs[-1] = (prefix, runs[-1][1], number)
        else:
            runs.append((prefix, number, number))
    others = [name for name in given if name in links or (name, None) in numbered]
    words = [f"{prefix}{low}" if low == high else f"{prefix}{low}..{high}" for prefix, low, high in runs]
    if len(words) + len(others) > MAX_NAMES or len(others) > MAX_LINKS:
        kind = "links" if len(links) == len(given) else "resources"
        return f"{len(given)} {kind}, most {given[0]}"
    return ", ".join([*words, *others])


def _costs(path: list[Stretch]) -> list[Cost]:
    """The costs of a path, the highest first."""
    spans = [span for stretch in path for span in stretch.spans]
    users: dict[tuple[str, str], set[int | None]] = {}
    for stretch in path:
        for part in (part for span in stretch.spans for part in span.parts):
            command = None if stretch.command is None else stretch.command.id
            users.setdefault((part.cause, part.resource), set()).add(command)
    found = [Cost(*key, cycles, len(users[key])) for key, cycles in totals(spans).items()]
    return sorted(found, key=lambda cost: -cost.cycles)


_GROUP_OF = {
    "granularity": "whole lines",
    "head": "head latency",
    "hops": "way through routers",
    "congestion": "congestion of routers",
    "bank": "bank conflicts",
    "backpressure": "bank conflicts",
    "write_back": "write-backs of the cache",
    "interrupt": "interrupts to the host",
    "enqueue": "enqueue by the host",
    "issue": "issue width",
    "ipcq": "control of queues between PEs",
    "flag": "flags of messages between PEs",
    "period": "engine periods",
    "idle": "no command in flight",
}
_OWN_NAME = (
    "whole lines",
    "bank conflicts",
    "interrupts to the host",
    "enqueue by the host",
    "issue width",
    "no command in flight",
    "launching and issuing by kernels",
    "control of queues between PEs",
    "flags of messages between PEs",
)


def _groups(costs: list[Cost], path: list[Stretch], history: History) -> list[Group]:
    found: dict[str, list[Cost]] = {}
    for cost in costs:
        kind = history.component.get(cost.resource, "")
        name = _GROUP_OF.get(cost.cause, "queues")
        if cost.cause == "issue" and cost.resource != "control":
            name = "launching and issuing by kernels"
        if cost.cause in ("transfer", "share"):
            name = {"DRAM": "DRAM bandwidth", "NOC": "link bandwidth"}.get(kind, "bandwidth")
            if naming.counted(cost.resource) == naming.LLC:
                name = "cache bandwidth"
            elif kind == "DRAM" and naming.cache_of(cost.resource, history.capacity) is not None:
                name = "DRAM bandwidth for cache misses"
        elif cost.cause == "work":
            name = f"{kind} work"
        found.setdefault(name, []).append(cost)
    made = []
    for name, some in found.items():
        resources = () if name in _OWN_NAME else tuple(dict.fromkeys(cost.resource for cost in some))
        if name.startswith("DRAM bandwidth"):
            channels = (name for name in _nearly_last(path) if history.component.get(name) == "DRAM")
            resources = tuple(dict.fromkeys((*resources, *channels)))
        waiting = sum((cost.cycles for cost in some if cause_look(cost.cause, cost.resource)[1] == "hatch"), Fraction(0))
        made.append(Group(name, resources, sum((cost.cycles for cost in some), Fraction(0)), waiting))
    return sorted(made, key=lambda group: -group.cycles)


def _nearly_last(path: list[Stretch]) -> list[str]:
    """Channels whose flows end in the last tenth of a transfer of the path: such channels count as bottlenecks like the channel
    that ends last."""
    found = []
    for job in (s.command.job for s in path if s.command is not None and s.command.job is not None and s.spans):
        near = (flow for flow in job.flows.values() if 10 * (job.end - flow.until) <= job.end - flow.since)
        found += [flow.route[0] for flow in near]
    return sorted(set(found))


def _sentence(groups: list[Group], cycles: int) -> str:
    if not cycles:
        return "the run has no cycles"
    told = [group for group in groups if group.cycles >= LEAST_SHARE * cycles][:MAX_GROUPS]
    words: list[str] = []
    for group in told:
        share = f"{float(group.cycles / cycles):.0%}"
        of = f": {names(group.resources)}" if group.resources else ""
        words.append(f"{share} {'of the run is ' if not words else ''}{group.name}{of}")
    rest = cycles - sum((group.cycles for group in told), Fraction(0))
    if rest >= LEAST_SHARE * cycles:
        words.append(f"{float(rest / cycles):.0%} all else")
    return "; ".join(words)
