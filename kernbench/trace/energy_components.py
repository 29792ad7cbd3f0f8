"""Components of a chip for the energy of a trace: the accesses that each component performs, and the energy of an access.

The `energy` section of a machine has one price for each part. A chip often has several components in a part, such as a buffer
for weights and a buffer for inputs. A file of components names them:

    schema: kernbench/energy-components/1
    components:
      weight buffer:
        - {part: spm, action: read, addresses: [0, 512KiB], pj: 1.08}

A rule of a component prices each access that fits all its keys. Several components may price the same access, as a MAC and the
registers around it do. Static energy may depend on the state of a resource, which its counters in the trace give.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from math import lcm
from typing import Any

from kernbench.common.errors import InputError
from kernbench.common.spelling import meant
from kernbench.common.units import parse_rational, parse_size
from kernbench.config.document import MACHINE_BYTES, Document, data_document, read_document
from kernbench.trace.energy import ACTIONS, PARTS, TIME, Item, Ledger, ledger
from kernbench.trace.reader import Trace

SCHEMA = "kernbench/energy-components/1"
NAMES = 64  #: components of a file, at most
_TEXTS = ("action", "tensor", "op", "resource")
_KEYS = ("part", *_TEXTS, "state", "addresses", "pj", "source")
BUSY, STALLED, IDLE = "busy", "stalled", "idle"
STATES = (BUSY, STALLED, IDLE)  #: the states of an engine, channel or link: each cycle of a run has one of them


@dataclass(frozen=True, slots=True)
class Rule:
    """The accesses of a component that have one price."""

    part: str
    pj: Fraction  #: a byte, MAC, operation or cycle
    action: str | None = None
    tensor: str | None = None
    op: str | None = None
    resource: str | None = None  #: a pattern with `*`
    state: str | None = None  #: of the resource; None of a static rule means all cycles of the run, once
    addresses: tuple[int, int] | None = None  #: of the first byte in the scratchpad: from the first one, below the second

    def prices(self, found: Ledger, item: Item) -> bool:
        """Whether an item of a ledger fits. `item.place` is the number of the address range, as `bounds` cuts them."""
        cause = found.cause(item)
        action = self.action if self.part != "static" else self.state or TIME
        texts = (
            (action, item.action),
            (self.tensor, None if cause is None else cause.tensor),
            (self.op, None if cause is None else cause.op),
        )
        return (
            item.part == self.part
            and all(wanted is None or wanted == given for wanted, given in texts)
            and (self.resource is None or fnmatchcase(item.resource, self.resource))
        )


@dataclass(frozen=True, slots=True)
class Components:
    """The components of a chip, in the order of the file."""

    rules: tuple[tuple[str, Rule], ...]  #: (name of the component, rule)

    @property
    def bounds(self) -> list[int]:
        """The scratchpad addresses at which a range of any rule begins or ends, ascending."""
        return sorted({at for _, rule in self.rules for at in rule.addresses or ()})

    def price(self, trace: Trace, *, each: bool = False) -> Ledger:
        """The ledger of a trace with the prices of the components. InputError as for `kernbench.trace.energy.ledger`."""
        bounds = self.bounds
        found = ledger(trace, bounds, each=each)
        unit = lcm(*(rule.pj.denominator for _, rule in self.rules))
        items: list[Item] = []
        end = trace.end
        states = [] if end is None else list(_in_states(end.counters, end.cycles))
        for item in (*found.items, *states):
            fits = [
                (name, rule)
                for name, rule in self.rules
                if rule.prices(found, item) and _inside(item.place, rule.addresses, bounds)
            ]
            priced: list[tuple[str | None, int]] = [(name, item.count * int(rule.pj * unit)) for name, rule in fits]
            if not priced and item.action in STATES:
                continue
            items += [replace(item, energy=energy, component=name) for name, energy in priced or [(None, 0)]]
        return Ledger(trace, items, found.causes, replace(found.prices, unit=unit), found.cycles)


def _in_states(counters: Mapping[str, Mapping[str, Any]], cycles: int) -> Iterator[Item]:
    """The cycles of each engine, channel and link in each state."""
    for resource, counted in counters.items():
        if BUSY not in counted:
            continue
        idle = counted.get(IDLE, cycles - counted[BUSY])  # a channel or a link is never stalled
        for state, count in ((BUSY, counted[BUSY]), (STALLED, cycles - counted[BUSY] - idle), (IDLE, idle)):
            if count:
                yield Item("static", resource, state, None, count, 0)


def _inside(place: int, addresses: tuple[int, int] | None, bounds: list[int]) -> bool:
    """Whether an address range of `bounds` is inside a rule's range."""
    return addresses is None or bisect_right(bounds, addresses[0]) <= place < bisect_right(bounds, addresses[1])


def read_components(path: str) -> Components:
    """The components of a file. InputError with the line that is not valid."""
    return components_of(read_document(path, MACHINE_BYTES))


def components_from(data: Mapping[str, Any], source: str) -> Components:
    """The components of plain data in the form of a file."""
    return components_of(data_document(data, source))


def components_of(document: Document) -> Components:
    """The components of a document. InputError with the location of the value that is not valid."""
    data = document.data
    given = data.get("components") if isinstance(data, dict) else None
    keys = {"schema", "about", "components"}
    if not isinstance(given, dict) or not given or data.get("schema") != SCHEMA or data.keys() - keys:
        rule = f"it must be {{schema: {SCHEMA}, about: TEXT, components: {{NAME: [{{part, pj, ...}}, ...]}}}}"
        raise InputError(document.problem((), rule))
    if len(given) > NAMES:
        raise InputError(document.problem(("components",), f"a file has at most {NAMES} components", len(given)))
    rules = []
    for name, items in given.items():
        if not isinstance(items, list) or not items:
            raise InputError(document.problem(("components", name), "it must be a list of {part, pj, ...}", items))
        rules += [(str(name), _rule(document, ("components", name, k), item)) for k, item in enumerate(items)]
    return Components(tuple(rules))


def _rule(document: Document, path: tuple[Any, ...], item: Any) -> Rule:
    if not isinstance(item, dict) or not {"part", "pj"} <= item.keys():
        raise InputError(document.problem(path, "it must have the keys part and pj", item))
    for key in item:
        if key not in _KEYS:
            raise InputError(document.problem((*path, key), f"keys are {', '.join(_KEYS)}", remedy=meant(str(key), _KEYS)))
    for key, choices in (("part", PARTS), ("action", ACTIONS), ("state", STATES)):
        if key in item and item[key] not in choices:
            rule = f"it must be one of {', '.join(choices)}"
            raise InputError(document.problem((*path, key), rule, item[key], meant(str(item[key]), choices)))
    if "state" in item and item["part"] != "static":
        raise InputError(document.problem((*path, "state"), "only part static has states", item["state"]))
    try:
        pj = parse_rational(item["pj"])
    except ValueError as error:
        raise InputError(document.problem((*path, "pj"), str(error), item["pj"])) from None
    if pj < 0:
        raise InputError(document.problem((*path, "pj"), "it must be at least 0", item["pj"]))
    texts = {key: str(item[key]) for key in (*_TEXTS, "state") if key in item}
    return Rule(item["part"], pj, addresses=_addresses(document, path, item), **texts)


def _addresses(document: Document, path: tuple[Any, ...], item: Mapping[str, Any]) -> tuple[int, int] | None:
    given = item.get("addresses")
    if given is None:
        return None
    rule = "it must be [FIRST, END], two scratchpad addresses in bytes; END is greater than FIRST. Only part spm has addresses"
    try:
        first, end = map(parse_size, given)
    except (ValueError, TypeError):
        raise InputError(document.problem((*path, "addresses"), rule, given)) from None
    if not 0 <= first < end or item["part"] != "spm":
        raise InputError(document.problem((*path, "addresses"), rule, given))
    return first, end
