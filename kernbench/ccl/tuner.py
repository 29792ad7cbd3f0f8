"""The tuner chooses the algorithm for a collective of a given size, from a cost model or from times that `kbsim ccl tune`
simulated.

A choice compares the estimates of all algorithms and simulates nothing. The cache keeps the simulated times of a group by the
contents of the machine and the group.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import exp, log, log2
from pathlib import Path
from typing import Any

from kernbench.ccl.call import Queues
from kernbench.ccl.closed_forms import form_of
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape, most_queues, switch_queues
from kernbench.ccl.cost import Outline
from kernbench.ccl.group import Group
from kernbench.ccl.group_routes import Latencies, Routes, latencies_of, routes_of
from kernbench.ccl.measure import MAX_PAIRS, CclRequest, bytes_of, messages, queues_of, row, schedule_of, slot_room
from kernbench.ccl.queue_sizes import of_chips
from kernbench.ccl.registry import Entry, Registry
from kernbench.ccl.schedule_outline import outline_of
from kernbench.ccl.weights import weights_of
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import make_folder, write_whole
from kernbench.common.package_digest import package_digest
from kernbench.common.parse_cache import cache_folder
from kernbench.components.builtin.ipcq_ring import PLAIN, Protocol
from kernbench.config import SystemConfig, load_config
from kernbench.config.kinds import a_system
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.version import VERSION

SCHEMA = "kernbench/ccl-times/1"
KNOWN = Path(str(importlib.resources.files("kernbench.configs").joinpath("ccl_times.json")))  #: `docs/ccl_costs.py` writes it


GROUPS, BOARDS, NETWORKS = "groups", "boards", "networks"  #: keys of that file
SIMPLE = "simple"  #: the protocol whose times the package contains
OWN = Queues()  #: each algorithm has its own
MAX_RANKS = 2048  #: larger groups use only algorithms with a closed form, because schedules take seconds


@dataclass(frozen=True)
class Estimated(Group):
    """A group of this size for estimates, which need not exist on a machine."""

    @property
    def size(self) -> int:
        return self.shape.ranks


@dataclass(frozen=True)
class Choice:
    """The estimates of all algorithms for one size."""

    cycles: Mapping[str, float]  #: by the name of the algorithm, with its fastest protocol
    simulated: bool  #: from simulated times of other sizes
    protocols: Mapping[str, str]  #: by the name of the algorithm: its fastest protocol
    each: Mapping[tuple[str, str], float]  #: cycles by algorithm and protocol

    @property
    def name(self) -> str:
        """The first algorithm with the lowest estimate."""
        return min(self.cycles, key=lambda name: self.cycles[name])

    @property
    def protocol(self) -> str:
        """The protocol of the chosen algorithm."""
        return self.protocols[self.name]


@dataclass
class Tuner:
    """The estimates for one group on a machine."""

    config: SystemConfig
    group: Group
    registry: Registry
    times: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)  #: by full name: bytes of `n_elem`, and cycles
    given: Queues = OWN  #: parameters that all algorithms get instead of their own; times are of their own
    shares: bool = False  #: whether queues of other groups may be in a scratchpad, so that those of chips are smaller

    @cached_property
    def latencies(self) -> Latencies:
        """The latencies of the routes of the machine."""
        return latencies_of(self.config)

    @cached_property
    def routes(self) -> Routes:
        """The routes between the ranks."""
        return routes_of(self.config, self.group, self.latencies)

    _outlines: dict[str, Outline | None] = field(default_factory=dict)
    _errors: dict[tuple[str, int, str], Errors] = field(default_factory=dict, init=False)
    _queues: dict[str, int] = field(default_factory=dict, init=False)  #: by full name: of the rank that has the most
    _sizes: dict[str, Queues] = field(default_factory=dict, init=False)  #: by full name: those of chips take long to compute

    def candidates(self, collective: str) -> Iterator[Entry]:
        """Return the algorithms of the package that this group can run, that the model knows, and whose queues fit.

        If no queues fit, the result has only the first algorithm.
        """
        known = [
            entry
            for entry in self.registry.entries
            if entry.collective == collective and not entry.unfit(self.config, self.group) and self.outline(entry) is not None
        ]
        yield from [entry for entry in known if self._fits(entry)] or known[:1]

    @property
    def protocols(self) -> Sequence[str]:
        """The protocols between which the tuner chooses."""
        return self.config.pe.ipcq.protocol_names if self.given.protocol is None else [self.given.protocol]

    def queues(self, entry: Entry) -> Queues:
        """Return the queues of an algorithm."""
        if entry.full_name not in self._sizes:
            given = self.given
            sizes = given.slots, given.slot_bytes, given.tier, given.protocol
            found = queues_of(self.registry, entry, *sizes, config=self.config, group=self.group, shares=self.shares)
            self._sizes[entry.full_name] = found
        return self._sizes[entry.full_name]

    @property
    def _resized(self) -> bool:
        """Whether chips have queues of given sizes, for which the times of computed sizes say little."""
        return of_chips(self.config, self.group) and (self.given.slots, self.given.slot_bytes) != (None, None)

    def _timed(self, entry: Entry, protocol: str) -> Queues:
        """Return the queues for which times are kept."""
        return queues_of(self.registry, entry, protocol=protocol, config=self.config, group=self.group)

    def _fits(self, entry: Entry, protocol: str | None = None) -> bool:
        """Return whether the queues of each rank leave a quarter of a scratchpad for tiles. `protocol` None means the first
        protocol.
        """
        group, queues = self.group, replace(self.queues(entry), protocol=protocol or self.protocols[0])
        if queues.tier != "tcm" or group.shape.ranks > MAX_RANKS:
            return True
        if entry.full_name not in self._queues:
            table = entry.load().neighbours(group.kind, group.shape)
            self._queues[entry.full_name] = most_queues(table, switch_queues(entry.load(), group.kind, group.shape, "add"))
        assert queues.slots is not None
        room = queues.slots * slot_room(self.config, queues)
        return 4 * self._queues[entry.full_name] * room <= 3 * self.config.pe.spm.size_bytes

    def choose(self, collective: str, count: int, dtype: str, channels: int = 0) -> Choice:
        """Return the estimates for `n_elem` elements, with sums on `channels` cores of each PE (0: on all cores).

        Raises InputError for a collective without a known algorithm.
        """
        itemsize = dtype_of(dtype).bits // 8
        entries = list(self.candidates(collective))
        if not entries:
            rule = f"no algorithm of {collective} is known to the tuner for a {self.group.kind_name}"
            raise InputError(Problem("tuner", rule, remedy="name one (--algo)"))
        pairs = [(one, name) for one in entries for name in self._protocols_of(one)]
        each = {(one.name, name): self.cycles(one, count, itemsize, name, channels) for one, name in pairs}
        protocols = {one.name: self._fastest(one.name, each) for one in entries}
        found = {name: each[name, protocol] for name, protocol in protocols.items()}
        own = replace(self.given, protocol=None) == OWN
        times = [self.times.get(_key(one.full_name, name)) for one, name in pairs]
        return Choice(found, own and all(times), protocols, each)

    def protocol(self, entry: Entry, count: int, dtype: str, channels: int = 0) -> str:
        """Return the fastest protocol of an algorithm.

        If the model does not know the algorithm, return the given protocol, or `simple`.
        """
        if self.outline(entry) is None:
            return self.given.protocol or SIMPLE
        itemsize = dtype_of(dtype).bits // 8
        names = self._protocols_of(entry)
        found = {(entry.name, name): self.cycles(entry, count, itemsize, name, channels) for name in names}
        return self._fastest(entry.name, found)

    @staticmethod
    def _fastest(name: str, each: Mapping[tuple[str, str], float]) -> str:
        return min((one for one in each if one[0] == name), key=lambda one: each[one])[1]

    def _protocols_of(self, entry: Entry) -> Sequence[str]:
        """Return the protocols whose slots fit."""
        if len(self.protocols) == 1:
            return self.protocols
        return [name for name in self.protocols if self._fits(entry, name)] or self.protocols[:1]

    def cycles(self, entry: Entry, count: int, itemsize: int, protocol: str | None = None, channels: int = 0) -> float:
        """Return the estimated time [cycle] of an algorithm, with sums on `channels` cores of each PE (0: on all cores).

        The estimate is the time of the model, multiplied by the error of the model at simulated sizes of this group or of
        similar
        groups. `protocol` None means the given protocol, or the first protocol of the machine.
        """
        name, nbytes, protocol = entry.full_name, count * itemsize, protocol or self.protocols[0]
        if (name, itemsize, protocol) not in self._errors:
            self._errors[name, itemsize, protocol] = self._error(entry, itemsize, protocol)
        queues, errors = replace(self.queues(entry), protocol=protocol), self._errors[name, itemsize, protocol]
        modelled, lanes = self._modelled(entry, nbytes, itemsize, queues), self._lanes(entry, nbytes, itemsize, queues)
        own = replace(self.given, protocol=None) == OWN
        beyond = errors.beyond(nbytes) if lanes == 1 and own else None
        usual = modelled * exp(errors.at(log(max(1, nbytes)), lanes)) if beyond is None else beyond
        return usual + self._slowed(entry, nbytes, itemsize, queues, channels)

    def _slowed(self, entry: Entry, nbytes: int, itemsize: int, queues: Queues, channels: int) -> float:
        """Return by how many cycles a call is longer if only some cores of each PE compute its sums."""
        if not channels:
            return 0.0
        outline, ve = self.outline(entry), self.config.pe.ve
        assert outline is not None and queues.slots is not None and queues.slot_bytes is not None
        bytes_a_cycle = float(ve.rate(8 * itemsize) * ve.engines) * itemsize
        sizes = nbytes, itemsize, queues.slots, queues.slot_bytes
        return outline.slowed(*sizes, bytes_a_cycle, self.config.pe.cores / channels)

    def _error(self, entry: Entry, itemsize: int, protocol: str) -> Errors:
        """Return the error of the model, by size. Without simulated times of a protocol, return the error for the simple
        protocol.
        """
        queues = self._timed(entry, protocol)
        points = () if self._resized else self.times.get(_key(entry.full_name, protocol), ())
        if not points and protocol != SIMPLE:
            return replace(self._error(entry, itemsize, SIMPLE), whole=())
        if not points:
            return Errors(self._error_near(entry))
        line = [(log(max(1, size)), log(cycles / self._modelled(entry, size, itemsize, queues))) for size, cycles in points]
        lanes = [self._lanes(entry, size, itemsize, queues) for size, _ in points]
        return Errors(line, lanes, [point for point, many in zip(points, lanes, strict=True) if many == 1])

    def _error_near(self, entry: Entry) -> Line:
        """Return the mean error of other groups, by the logarithm of the bytes of `n_elem`."""
        shape, outline = self.group.shape, self.outline(entry)
        assert outline is not None
        network = network_of(self.config) if shape.sips > 1 else ""
        chips = of_chips(self.config, self.group) and not self._resized
        if chips and (known := errors_of_boards().get(entry.full_name)):
            line = error_near(known, shape, self.group.kind_name, network, self.latencies.in_flight)
        else:
            line = error_near(errors_of_model().get(entry.full_name, ()), shape, self.group.kind_name, network)
        return [(longest - log(outline.widest), error) for longest, error in line]

    def _lanes(self, entry: Entry, nbytes: int, itemsize: int, queues: Queues) -> int:
        outline = self.outline(entry)
        assert outline is not None and queues.slots is not None and queues.slot_bytes is not None
        return outline.lanes(nbytes, itemsize, queues.slots, queues.slot_bytes)

    def _modelled(self, entry: Entry, nbytes: int, itemsize: int, queues: Queues) -> float:
        """Return the estimated time [cycle] from the model alone."""
        outline = self.outline(entry)
        assert outline is not None and queues.slots is not None and queues.slot_bytes is not None
        sizes = (nbytes, itemsize, queues.slots, queues.slot_bytes)
        found = self.config.pe.ipcq.protocol(queues.protocol or SIMPLE)
        protocol = PLAIN if found is None else Protocol(found.cycles, found.data_bytes, found.line_bytes)
        return outline.cycles(weights_of(entry.full_name + outline.form), *sizes, self.latencies.link, protocol)

    def outline(self, entry: Entry) -> Outline | None:
        """Return the outline of an algorithm for the cost model, or None if the model does not know the algorithm."""
        name = entry.full_name
        if name not in self._outlines:
            self._outlines[name] = self._made(entry)
        return self._outlines[name]

    def _made(self, entry: Entry) -> Outline | None:
        routes, group = self.routes, self.group
        if not entry.module.startswith("kernbench."):
            return None
        found = form_of(entry.full_name, group.shape, group.kind, routes)
        if found is not None or group.size > MAX_RANKS or (entry.name == "direct" and group.size**2 > MAX_PAIRS):
            return found
        schedule = schedule_of(entry, group)
        slots = self.queues(entry).slots
        return None if schedule is None or slots is None else outline_of(schedule, routes, self.config.pe.spm.size_bytes, slots)


def _key(full_name: str, protocol: str) -> str:
    """Return the key of the times of an algorithm."""
    return full_name if protocol == SIMPLE else f"{full_name} {protocol}"


Line = Sequence[tuple[float, float]]  #: points of a curve that is straight between them


@dataclass(frozen=True)
class Errors:
    """The errors of the model at simulated sizes of a group, or a mean over other groups."""

    line: Line
    lanes: Sequence[int] = ()  #: by point; empty for other groups, whose lanes are others
    whole: Sequence[tuple[int, int]] = ()  #: bytes and cycles of the sizes that are one lane

    def at(self, size: float, lanes: int) -> float:
        """Return the error at a size, interpolated between two simulated sizes.

        The error jumps where elements are cut once more. If only one of the two sizes has this number of lanes, its error
        counts.
        """
        k = bisect_left(self.line, size, key=lambda one: one[0])
        if self.lanes and 0 < k < len(self.line):
            same = [one for one in (k - 1, k) if self.lanes[one] == lanes]
            if len(same) == 1:
                return self.line[same[0]][1]
        return _on_line(self.line, size)

    def beyond(self, nbytes: int) -> float | None:
        """Return the time [cycle] of a single-lane size up to twice the largest simulated size, extrapolated from the last two
        sizes.

        Return None for other sizes.
        """
        if len(self.whole) < 2 or not self.whole[-1][0] < nbytes < 2 * self.whole[-1][0]:
            return None
        (a, before), (b, last) = self.whole[-2:]
        return last + (last - before) * (nbytes - b) / (b - a)


OTHER_NETWORK = 1.0  #: how far apart two groups of several SIPs are whose SIPs are linked in different ways
OTHER_KIND = 1.0  #: how far apart two groups are for their arrangement; twice the ranks on a level are 1
OTHER_POWER = 2.0  #: and if only one of them has a power of two of ranks: algorithms by bits have more steps for others
OVER_SIPS = 3.0  #: and if only one of them has several SIPs


@dataclass(frozen=True)
class KnownError:
    """The error of the model at the simulated sizes of a group."""

    shape: Shape
    topology: str
    line: Line  #: the logarithm of simulated over modelled cycles, by that of the bytes of the longest message without cuts
    network: str = ""  #: of a group of several SIPs (`network_of`)
    in_flight: float | None = None  #: [B] on a link between two chips at a time; None for other groups

    def distance(self, shape: Shape, topology: str, network: str = "", in_flight: float | None = None) -> float:
        """Return how different another group is. The distance is 0 for the same shape and topology, and for chips the same
        bytes in flight.
        """
        levels = sum(abs(log2(one / other)) for one, other in zip(self.shape, shape, strict=True))
        over = (self.shape.sips > 1) != (shape.sips > 1)
        power = (self.shape.ranks.bit_count() == 1) != (shape.ranks.bit_count() == 1)
        other = OTHER_NETWORK * (self.network != network and not over)
        links = abs(log2(self.in_flight / in_flight)) if self.in_flight and in_flight else 0.0
        return levels + OVER_SIPS * over + OTHER_KIND * (self.topology != topology) + OTHER_POWER * power + other + links


def error_near(
    known: Sequence[KnownError], shape: Shape, topology: str, network: str = "", in_flight: float | None = None
) -> Line:
    """Return the error of groups with the same shape and topology, and for chips with the same bytes in flight on a link.

    If there is no such group, return the mean over all groups, weighted by the inverse square of the distance.
    """
    far = [(one.distance(shape, topology, network, in_flight), one.line) for one in known]
    same = [(1.0, line) for distance, line in far if distance == 0]
    weighted = same or [(distance**-2, line) for distance, line in far]
    sizes = sorted({size for _, line in weighted for size, _ in line})
    whole = sum(weight for weight, _ in weighted)
    found = [(size, sum(weight * _on_line(line, size) for weight, line in weighted) / whole) for size in sizes]
    return found or [(0.0, 0.0)]


def _on_line(points: Line, at: float) -> float:
    """Interpolate between points. Before the first point and after the last point, return the value of that point."""
    k = bisect_left(points, at, key=lambda one: one[0])
    if k in (0, len(points)):
        return points[min(k, len(points) - 1)][1]
    (a, s), (b, t) = points[k - 1], points[k]
    return s + (t - s) * (at - a) / (b - a)


def place(config: SystemConfig, group: Group) -> Path | None:
    """Return the file with the simulated times of a group, or None without a cache."""
    home = cache_folder("ccl")
    if home is None:
        return None
    code = f"{MODEL_VERSION} {VERSION} {package_digest('kernbench.ccl')}"
    text = f"{SCHEMA} {config.digest()} {group.shape} {group.arranged} {code}"
    return home / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def times_digest() -> str:
    """Return a digest of all simulated times on which choices depend: the times of the package and the times in the cache."""
    home = cache_folder("ccl")
    found = hashlib.sha256(KNOWN.read_bytes())
    for file in sorted(home.glob("*.json")) if home is not None else ():
        with suppress(OSError):  # of another user: `read_times` takes no times from it either
            found.update(file.read_bytes())
    return found.hexdigest()


_TUNERS: dict[tuple[Any, ...], Tuner] = {}


def tuner_of(
    config: SystemConfig, group: Group, registry: Registry, given: Queues | None = None, *, shares: bool = False
) -> Tuner:
    """Return the tuner of a group, with all earlier simulated times. Equal parameters return the same object."""
    key = config.digest(), config.allowed_code.paths, group, registry.entries, given, shares
    if key not in _TUNERS:
        _TUNERS[key] = tuner = Tuner(config, group, registry, given=given or OWN, shares=shares)
        path = place(config, group)
        tuner.times = read_times(path) if path is not None and os.path.isfile(path) else known_times(key[0], group)
    return _TUNERS[key]


def known_times(digest: str, group: Group) -> dict[str, list[tuple[int, int]]]:
    """Return the times of a group of a preset, of a board, or of a preset with another network, which are part of the package.
    Other groups and machines have no such times.
    """
    found: dict[str, dict[int, int]] = {}
    here = digest, list(group.shape), group.kind_name
    for one in (*_file()[NETWORKS], *_file()[GROUPS], *_file()[BOARDS]):
        if (one["digest"], one["shape"], one["topology"]) == here and one.get("placed") in (None, list(group.placed or ())):
            for name, rows in one["times"].items():
                found.setdefault(name, {}).update((int(size), int(cycles)) for size, cycles, *_ in rows)
    return {name: sorted(rows.items()) for name, rows in found.items()}


@cache
def errors_of_model() -> Mapping[str, Sequence[KnownError]]:
    """Return the errors of the model at the groups of PEs that the package has times of, by full name of the algorithm."""
    found: dict[str, list[KnownError]] = {}
    for one in (*_file()[GROUPS], *_file()[NETWORKS]):
        kinds = [setting.partition("=")[2] for setting in one["overrides"] if setting.startswith("system.kind=")]
        kind = kinds[-1] if kinds else "ring"  # that of the presets
        if kind == DIMENSIONS:
            kind = network_of(a_system("collectives", load_config(one["machine"], one["overrides"])))
        _add_errors(found, one, kind)
    return found


DIMENSIONS = "dimensions"  #: a `system.kind` of many networks


def network_of(config: SystemConfig) -> str:
    """Return what tells the network between SIPs from others: `system.kind`, and the dimensions of SIPs with their links."""
    kind = config.system.kind
    return f"{kind} {config.system.dimensions}" if kind == DIMENSIONS else kind


@cache
def errors_of_boards() -> Mapping[str, Sequence[KnownError]]:
    """Return the errors of the model at the groups of boards that were simulated for the package.

    Only other groups of chips have similar errors: the links between chips have more bytes in flight than those of presets.
    """
    found: dict[str, list[KnownError]] = {}
    for one in _file()[BOARDS]:
        config = a_system("collectives", load_config(one["machine"]))
        _add_errors(found, one, network_of(config), latencies_of(config).in_flight)
    return found


def _add_errors(
    found: dict[str, list[KnownError]], one: Mapping[str, Any], network: str, in_flight: float | None = None
) -> None:
    """Add the errors at a group, whose SIPs, if there are several, are connected by a network of this kind."""
    shape = Shape(*one["shape"])
    about = network if shape.sips > 1 else "", in_flight
    for name, rows in one["times"].items():
        widest = log(one["widest"][name])
        line = [(log(max(1, size)) + widest, log(ratio)) for size, _, ratio in rows]
        found.setdefault(name, []).append(KnownError(shape, one["topology"], line, *about))


@cache
def _file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return found


def read_times(path: Path) -> dict[str, list[tuple[int, int]]]:
    """Return the simulated times of a file, or no times if the file is damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {name: [(int(a), int(b)) for a, b in rows] for name, rows in data["times"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return {}


def simulate(
    tuner: Tuner,
    collective: str,
    sizes: Sequence[int],
    dtype: str,
    most_messages: int | None = None,
    within: float | None = None,
) -> Iterator[tuple[Entry, int, int, float]]:
    """Simulate all algorithms at these sizes [B], one size after the other, and keep the times.

    If the caller or an exception ends it earlier, the tuner has the times of the sizes at which all algorithms were simulated.
    Times of only some algorithms would favour one kind of estimate over the other.

    Parameters
    ----------
    tuner
        The tuner of the group.
    collective, dtype
        The collective and the element type.
    sizes
        The sizes [B].
    most_messages
        The largest number of messages; larger sizes are skipped.
    within
        Algorithms whose estimate is more than this multiple of the lowest estimate are skipped.

    Yields
    ------
    The algorithm, the bytes, the simulated cycles, and the estimate of the model.
    """
    itemsize = dtype_of(dtype).bits // 8
    what, model = COLLECTIVES[collective], replace(tuner, times={})
    runs = []
    for entry in tuner.candidates(collective):
        for protocol in tuner._protocols_of(entry):
            request = CclRequest(tuner.config, tuner.group, entry, dtype, tuner._timed(entry, protocol), check=False)
            runs.append((entry, protocol, request, dict(tuner.times.get(_key(entry.full_name, protocol), ()))))
    try:
        for size in sizes:
            count = what.count_of(size, tuner.group.size, itemsize) if what.moves else 1
            found = []
            for entry, protocol, request, rows in runs:
                if most_messages is not None and messages(request, count)[0] > most_messages:
                    continue
                if within is not None:
                    estimates = tuner.choose(collective, count, dtype).each
                    if estimates[entry.name, protocol] > within * min(estimates.values()):
                        continue
                made, _ = row(request, count)
                if made is None:
                    continue
                found.append((rows, made.cycles))
                yield entry, bytes_of(request, count), made.cycles, model.cycles(entry, count, itemsize, protocol)
            for rows, cycles in found:
                rows[count * itemsize] = cycles
    finally:
        times = {_key(entry.full_name, protocol): sorted(rows.items()) for entry, protocol, _, rows in runs if rows}
        tuner.times = {**tuner.times, **times}
        tuner._errors.clear()


def save(tuner: Tuner, path: Path) -> None:
    """Write the simulated times. InputError if the file cannot be written."""
    make_folder(path.parent)
    write_whole(path, json.dumps({"schema": SCHEMA, "times": tuner.times}, indent=1).encode())
