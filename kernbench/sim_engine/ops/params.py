"""The params of op records in little memory: common values of many ops are stored once, in a template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

Where: TypeAlias = int | slice  #: index of a value among those of one op; a slice gives a list

#: Keys that differ between two ops of the same kernel line; the other keys are the template.
_VARYING = (
    "src_addr",
    "dst_addr",
    "src_a_addr",
    "src_b_addr",
    "acc_addr",
    "out_addr",
    "virtual_addr",
    "handle_id",
    "input_addrs",
    "input_snapshots",
    "snapshot",
    "scalars",
    "other",
    "epilogue",
    "value",
)


class Template:
    """The common params of the ops of one kernel line. Two ops with the same template have the same shapes, types and flags."""

    def __init__(self, constants: dict[str, Any], varying: dict[str, Where]) -> None:
        self.constants = constants
        self.varying = varying
        self.plans: dict[Any, Any] = {}  #: a value that a replay computes once for all ops of a kind


Row: TypeAlias = tuple[str, str, Template, tuple[Any, ...]]  #: the kind of an op, its name, and the two parts of its params


class OpValues:
    """The kind, the name and the params of an op. Values that are integers need no Python objects, which the garbage collector
    would visit, until code reads `values`.
    """

    def __init__(self, op_kind: str, op_name: str, template: Template, values: tuple[Any, ...]) -> None:
        self.put((op_kind, op_name, template, values))

    def put(self, parts: Row) -> None:
        """Set all of them."""
        self._values: tuple[Any, ...] | None
        self.op_kind, self.op_name, self.template, self._values = parts

    def put_numbers(
        self,
        op_kind: str,
        op_name: str,
        template: Template,
        count: int,
        first: int,
        second: int,
        third: int,
        fourth: int,
        rest: tuple[Any, ...],
    ) -> None:
        """Set all of them: the values are the first `count` of four integers, and those of `rest`."""
        self.op_kind, self.op_name, self.template = op_kind, op_name, template
        self._values, self._count, self._rest = None, count, rest
        self._first, self._second, self._third, self._fourth = first, second, third, fourth

    @property
    def values(self) -> tuple[Any, ...]:
        """The op's own values of `params`."""
        if self._values is None:
            self._values = (self._first, self._second, self._third, self._fourth)[: self._count] + self._rest
        return self._values


class Params(Mapping[str, Any]):
    """The `params` of a record: a template and this op's own values. It is read only, and equal to a dict of the same items."""

    __slots__ = ("template", "values_of_op")

    def __init__(self, template: Template, values: tuple[Any, ...]) -> None:
        self.template = template
        self.values_of_op = values

    def __getitem__(self, key: str) -> Any:
        where = self.template.varying.get(key)
        if where is None:
            return self.template.constants[key]
        found = self.values_of_op[where]
        if key == "handle_id" and type(found) is int:
            return f"t{found}"  # of a tile without a name, by its number
        return found if isinstance(where, int) else list(found)

    def __contains__(self, key: object) -> bool:
        return key in self.template.varying or key in self.template.constants

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        if key in self.template.varying:
            return self[key]
        return self.template.constants.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return chain(self.template.constants, self.template.varying)

    def __len__(self) -> int:
        return len(self.template.constants) + len(self.template.varying)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> Any:
        return shared, (dict(self),)


class Form:
    """The keys of one kind of op, and its templates so far, by the values of the constant keys."""

    def __init__(self, constant: Sequence[str], varying: Mapping[str, Where]) -> None:
        self._constant = tuple(constant)
        self._varying = dict(varying)
        self._templates: dict[tuple[Any, ...], Template] = {}
        self._last: dict[Any, tuple[tuple[Any, ...], Template]] = {}  # by the last constant, the kernel's line

    def params(self, constants: tuple[Any, ...], values: tuple[Any, ...]) -> Params:
        """The params of an op whose constant keys have these values, which are hashable and distinguish 1 from True."""
        return Params(self.template(constants), values)

    def template(self, constants: tuple[Any, ...]) -> Template:
        """The params that ops with these constants share."""
        last = self._last.get(constants[-1])
        if last is not None and last[0] == constants:
            return last[1]
        template = self._templates.get(constants)
        if template is None:
            shown = {key: list(value) if key in _LISTS else value for key, value in zip(self._constant, constants, strict=True)}
            template = self._templates[constants] = Template(shown, self._varying)
        self._last[constants[-1]] = (constants, template)
        return template


_LISTS = ("input_shapes", "input_spaces", "input_dtypes")  #: keys whose value is a list with one item per input
_SHARED: dict[Any, Template] = {}


def shared(params: Mapping[str, Any]) -> Params:
    """Any record's params with their template: as they are, or taken from a dict."""
    if type(params) is Params:
        return params
    varying: dict[str, Where] = {}
    values: list[Any] = []
    for key in _VARYING:
        if key in params:
            value = params[key]
            several = isinstance(value, list) and key != "epilogue"
            varying[key] = slice(len(values), len(values) + len(value)) if several else len(values)
            values += value if several else [value]
    constants = {key: params[key] for key in sorted(params) if key not in varying}
    name = (_frozen(constants), tuple([(key, str(where)) for key, where in varying.items()]))
    template = _SHARED.get(name)
    if template is None:
        template = _SHARED[name] = Template(constants, varying)
    return Params(template, tuple(values))


def _frozen(value: Any) -> Any:
    """A value as a key. Keys are equal only if value and type are equal: 1, 1.0 and True have different keys."""
    if isinstance(value, Mapping):
        return tuple([(key, _frozen(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_frozen, value))
    return type(value), repr(value)
