"""Sections of files as frozen objects: fields with types and defaults; given values are checked, and all problems are reported
together.

A section declares its fields as a dataclass does. pydantic could do the same, but its import takes longer than a short run (ADR
52). These few types are therefore checked here: types with a `Rule`, texts, names of a `Literal`, lists, tables and sections.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, Union, dataclass_transform, get_args, get_origin

import msgspec

from kernbench.common.errors import shown

Location: TypeAlias = "tuple[str | int, ...]"
JsonSchema: TypeAlias = "dict[str, Any]"


class _Required:
    """The default of a field that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()


class Refused(ValueError):
    """Raised by a check: the kind of the problem, the violated rule, and further data for the report."""

    def __init__(self, kind: str, rule: str, context: Mapping[str, Any] | None = None) -> None:
        super().__init__(rule)
        self.kind = kind
        self.context = dict(context or {})


def _dotted(path: Iterable[Any]) -> str:
    return ".".join(one if isinstance(one, str) else shown(one) for one in path)


class ValidationError(ValueError):
    """All problems of the values that were given to a section."""

    def __init__(self, title: str, problems: list[dict[str, Any]]) -> None:
        lines = [f"{_dotted(one['loc'])}: {one['msg']}" for one in problems]
        super().__init__(f"{title}: {'; '.join(lines)}")
        self._problems = problems

    def errors(self) -> list[dict[str, Any]]:
        """The problems: `type`, `loc` (the path), `msg`, `input` (the value), and `ctx` if there are further data."""
        return self._problems


class Rule(msgspec.Struct, frozen=True):
    """The type of a field: a check that returns the value in its final type, and a JSON Schema."""

    check: Callable[[Any], Any]
    json: Callable[[], JsonSchema]


class Declared:
    """The arguments of `Field` for a field."""

    __slots__ = ("alias", "default", "default_factory", "description", "min_length")

    def __init__(self, default: Any, default_factory: Any, alias: str | None, description: str | None, min_length: int) -> None:
        self.default, self.default_factory = default, default_factory
        self.alias, self.description, self.min_length = alias, description, min_length


def Field(  # capitalised like a class, as in dataclasses and pydantic
    *,
    default: Any = REQUIRED,
    default_factory: Callable[[], Any] | None = None,
    alias: str | None = None,
    description: str | None = None,
    min_length: int = 0,
) -> Any:
    """The default of a field, its name in files if it differs, its meaning, and the smallest length of a list."""
    return Declared(default, default_factory, alias, description, min_length)


class FieldInfo:
    """A field of a section."""

    __slots__ = ("_declared", "_text", "alias", "default", "default_factory", "description", "owner")

    def __init__(self, owner: type, text: Any, declared: Declared) -> None:
        self.owner, self._text, self._declared = owner, text, declared
        self.alias, self.description = declared.alias, declared.description
        self.default, self.default_factory = declared.default, declared.default_factory

    @property
    def hint(self) -> Any:
        """Its type as it was declared, with its rule."""
        hint = eval(self._text, vars(sys.modules[self.owner.__module__])) if isinstance(self._text, str) else self._text
        return Annotated[hint, self._declared] if self._declared.min_length else hint

    @property
    def annotation(self) -> Any:
        """Its type without the rule."""
        hint = self.hint
        return get_args(hint)[0] if get_origin(hint) is Annotated else hint

    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED and self.default_factory is None

    def get_default(self) -> Any:
        """Its default, or REQUIRED."""
        if self.default_factory is not None:
            return self.default_factory()
        return dict(self.default) if isinstance(self.default, dict) else self.default


Problems: TypeAlias = "list[dict[str, Any]]"
#: Checks a value at a path. It returns the value in its final type, or adds problems and returns WRONG.
Check: TypeAlias = Callable[[Any, Location, Problems], Any]
WRONG: Any = object()
MAPPING, MISSING = "it must be a mapping", "it is required: it has no default"
FROZEN = "values of a section never change: model_copy(update=...) makes another"


@dataclass_transform(kw_only_default=True, eq_default=True, field_specifiers=(Field,))
class Section:
    """A mapping of a file: unknown keys are errors, and values never change. Sections are equal if all values are equal."""

    #: Fields that `to_dict` omits at their default, because they are newer than existing digests and stores.
    younger: ClassVar[frozenset[str]] = frozenset()
    #: Whether other keys are allowed; they are kept as `model_extra`.
    open_ended: ClassVar[bool] = False
    model_fields: ClassVar[dict[str, FieldInfo]] = {}
    _checks: ClassVar[list[tuple[str, str, FieldInfo, Check]] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        fields = {name: one for base in reversed(cls.__mro__[1:]) for name, one in vars(base).get("model_fields", {}).items()}
        for name, text in vars(cls).get("__annotations__", {}).items():
            if name.startswith("_") or str(text).startswith(("ClassVar", "typing.ClassVar")):
                continue
            declared = vars(cls).get(name, REQUIRED)
            if declared is not REQUIRED:
                delattr(cls, name)
            if not isinstance(declared, Declared):
                declared = Declared(declared, None, None, None, 0)
            fields[name] = FieldInfo(cls, text, declared)
        cls.model_fields = fields
        cls._checks = None

    def __init__(self, **values: Any) -> None:
        problems: Problems = []
        self._fill(values, (), problems)
        if problems:
            raise ValidationError(type(self).__name__, problems)

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        """Make a section from a mapping. ValidationError with all problems of the mapping."""
        problems: Problems = []
        section = cls._of(data, (), problems)
        if problems:
            raise ValidationError(cls.__name__, problems)
        found: Self = section
        return found

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """Make a section from values that are known to be valid, in their final types, by the names of their fields."""
        section = cls.__new__(cls)
        for name, field in cls.model_fields.items():
            section.__dict__[name] = values[name] if name in values else field.get_default()
        return section

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """The same section with some values replaced; the new values are not checked."""
        section = type(self).__new__(type(self))
        cached = {name for name in self.__dict__ if isinstance(getattr(type(self), name, None), cached_property)}
        kept = {name: value for name, value in self.__dict__.items() if name not in cached}
        section.__dict__.update(kept | dict(update or {}))
        return section

    def model_dump(self) -> dict[str, Any]:
        """The values by the names of their fields, sections as mappings."""
        return {name: _dumped(getattr(self, name)) for name in self.model_fields}

    @property
    def model_extra(self) -> dict[str, Any]:
        """The keys of an open-ended section that are not fields."""
        found: dict[str, Any] = self.__dict__.get("_extra", {})
        return found

    def complete_given(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Called before the check: the given values, completed with defaults that depend on which values are given."""
        return data

    def check_whole(self) -> None:
        """Check values that are valid alone, but may not be valid together. Raises an error for such values."""

    @classmethod
    def _of(cls, data: Any, at: Location, problems: Problems) -> Any:
        """A section of this kind; the value may already be one."""
        if isinstance(data, cls):
            return data
        if not isinstance(data, dict):
            problems.append(_problem("mapping", at, MAPPING, data))
            return WRONG
        section = cls.__new__(cls)
        section._fill(data, at, problems)
        return section

    def _fill(self, data: Mapping[str, Any], at: Location, problems: Problems) -> None:
        kind, before = type(self), len(problems)
        given = self.complete_given(data)
        values = self.__dict__
        names = 0
        for name, key, field, check in kind._checks or kind._made_checks():
            if key in given:
                names += 1
                values[name] = check(given[key], (*at, key), problems)
            elif field.is_required():
                problems.append(_problem("missing", (*at, key), MISSING, given))
            else:
                values[name] = field.get_default()
        if names < len(given):
            self._keep_others(given, at, problems)
        if len(problems) == before:
            try:
                self.check_whole()
            except Refused as refused:
                problems.append(_problem(refused.kind, at, str(refused), data, refused.context))

    def _keep_others(self, given: Mapping[str, Any], at: Location, problems: Problems) -> None:
        keys = {key for _, key, _, _ in type(self)._checks or ()}
        for key, value in given.items():
            if key in keys:
                continue
            if not isinstance(key, str):
                problems.append(_problem("key", (*at, key), "a key must be text here", value))
            elif not self.open_ended:
                problems.append(_problem("unknown_key", (*at, key), "there is no such key", value))
            else:
                self.__dict__.setdefault("_extra", {})[key] = value

    @classmethod
    def _made_checks(cls) -> list[tuple[str, str, FieldInfo, Check]]:
        cls._checks = [(name, one.alias or name, one, check_of(one.hint)) for name, one in cls.model_fields.items()]
        return cls._checks

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            at: Location = (name,)
            raise ValidationError(type(self).__name__, [_problem("frozen", at, FROZEN, value)])
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise ValidationError(type(self).__name__, [_problem("frozen", (name,), FROZEN, None)])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Section)
        return self._values() == other._values() and self.model_extra == other.model_extra

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the names of the fields, each with its value."""
        return iter(list(zip(self.model_fields, self._values(), strict=True)))

    def __repr__(self) -> str:
        values = {**dict(zip(self.model_fields, self._values(), strict=True)), **self.model_extra}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def _values(self) -> list[Any]:
        return [self.__dict__[name] for name in self.model_fields]


def _dumped(value: Any) -> Any:
    if isinstance(value, Section):
        return value.model_dump()
    if isinstance(value, dict):
        return {key: _dumped(item) for key, item in value.items()}
    return tuple(map(_dumped, value)) if isinstance(value, tuple) else value


def _problem(kind: str, at: Location, message: str, value: Any, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": kind, "loc": at, "msg": message, "input": value, **({"ctx": dict(context)} if context else {})}


def check_of(hint: Any) -> Check:
    """The check of a type. TypeError for a type that sections do not have."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(inside[0], inside[1:])
    if origin in (Union, UnionType):
        (inner,) = (one for one in inside if one is not NoneType)
        return _or_none(check_of(inner))
    if origin is Literal:
        return _one_of(inside)
    if origin is tuple:
        return _list_of(check_of(inside[0])) if inside[1:] == (...,) else _tuple_of([*map(check_of, inside)])
    if origin is dict:
        # the rule checks integers
        return _table_of(_unchecked if inside[0] is int else check_of(inside[0]), check_of(inside[1]))
    if isinstance(hint, type) and issubclass(hint, Section):
        return hint._of
    if hint is str:
        return _text
    if hint is Any:
        return _unchecked
    raise TypeError(f"{hint} has no rule")


def _annotated(hint: Any, extras: tuple[Any, ...]) -> Check:
    rule = next((one for one in extras if isinstance(one, Rule)), None)
    least = max((one.min_length for one in extras if isinstance(one, Declared)), default=0)
    if rule is None:
        return _at_least(least, check_of(hint)) if least else check_of(hint)
    inner = None if _is_final(hint) else check_of(hint)
    made = _ruled(rule.check, inner)
    return _at_least(least, made) if least else made


def _is_final(hint: Any) -> bool:
    """Whether the result of a rule is already checked: it has no list, table or section with rules for its contents."""
    inside = get_args(hint)
    if get_origin(hint) in (Union, UnionType, tuple):
        return all(_is_final(one) and get_origin(one) is not Annotated for one in inside if one is not ...)
    return not inside and not (isinstance(hint, type) and issubclass(hint, Section))


def _ruled(check: Callable[[Any], Any], inner: Check | None) -> Check:
    def checked(value: Any, at: Location, problems: Problems) -> Any:
        try:
            made = check(value)
        except Refused as refused:
            problems.append(_problem(refused.kind, at, str(refused), value, refused.context))
            return WRONG
        return made if inner is None else inner(made, at, problems)

    return checked


def _or_none(inner: Check) -> Check:
    return lambda value, at, problems: None if value is None else inner(value, at, problems)


def _unchecked(value: Any, at: Location, problems: Problems) -> Any:
    return value


def _text(value: Any, at: Location, problems: Problems) -> Any:
    if not isinstance(value, str):
        problems.append(_problem("text", at, "it must be text", value))
    return value


def _one_of(names: tuple[Any, ...]) -> Check:
    rule = f"it must be one of {', '.join(map(str, names))}"

    def checked(value: Any, at: Location, problems: Problems) -> Any:
        if any(value == name and isinstance(value, type(name)) and not isinstance(value, bool) for name in names):
            return value
        problems.append(_problem("choice", at, rule, value, {"choices": names}))
        return WRONG

    return checked


def _list_of(inner: Check) -> Check:
    def checked(value: Any, at: Location, problems: Problems) -> Any:
        if not isinstance(value, (list, tuple)):
            problems.append(_problem("list", at, "it must be a list", value))
            return WRONG
        return tuple([inner(item, (*at, i), problems) for i, item in enumerate(value)])

    return checked


def _tuple_of(inner: list[Check]) -> Check:
    def checked(value: Any, at: Location, problems: Problems) -> Any:
        if not isinstance(value, (list, tuple)):
            problems.append(_problem("list", at, "it must be a list", value))
            return WRONG
        if len(value) > len(inner):
            problems.append(_problem("length", at, f"it must be a list of {len(inner)}", value))
            return WRONG
        made = tuple([check(item, (*at, i), problems) for i, (check, item) in enumerate(zip(inner, value, strict=False))])
        for i in range(len(value), len(inner)):
            problems.append(_problem("missing", (*at, i), MISSING, value))
        return made

    return checked


def _at_least(least: int, inner: Check) -> Check:
    def checked(value: Any, at: Location, problems: Problems) -> Any:
        before = len(problems)
        made = inner(value, at, problems)
        if len(problems) == before and len(made) < least:
            problems.append(_problem("length", at, f"it must be a list of at least {least}", value))
        return made

    return checked


def _table_of(key_check: Check, value_check: Check) -> Check:
    def pairs(value: dict[Any, Any], at: Location, problems: Problems) -> Iterator[tuple[Any, Any]]:
        for key, item in value.items():
            yield key_check(key, (*at, key, "[key]"), problems), value_check(item, (*at, key), problems)

    def checked(value: Any, at: Location, problems: Problems) -> Any:
        if not isinstance(value, dict):
            problems.append(_problem("mapping", at, MAPPING, value))
            return WRONG
        return dict(pairs(value, at, problems))

    return checked
