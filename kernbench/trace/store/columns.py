"""Fields of many records as numpy columns: integers, `NULL` where a record says nothing, and texts as numbers into a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.trace.schema import Field

Ints = NDArray[np.int64]
NULL = -(2**63)  #: in a column: the record has no such field
BATCH = 1 << 15  # [row] kept as Python objects before they become columns


@dataclass(frozen=True)
class Column:
    """One field of all rows of a table."""

    values: Ints
    texts: list[str] | None = None  #: of a field of text: what the values, other than NULL, are indices into
    items: Ints | None = None  #: of a list of integers: all rows' items, of which `values` says how many each row has

    def __len__(self) -> int:
        return len(self.values)

    def take(self, order: Ints) -> Column:
        """Some rows, in some order; an index below 0 is a row without the field."""
        if self.items is None:
            if len(self.values) == 0:
                return Column(np.full(len(order), NULL), self.texts)
            return Column(np.where(order < 0, NULL, self.values[np.maximum(order, 0)]), self.texts)
        counts = np.maximum(self.values, 0)
        starts = np.cumsum(counts) - counts
        taken = counts[order]
        within = np.arange(int(taken.sum())) - np.repeat(np.cumsum(taken) - taken, taken)
        return Column(self.values[order], None, self.items[np.repeat(starts[order], taken) + within])

    def __getitem__(self, row: int) -> int | str | list[int] | None:
        """The value of one row as it was in the record."""
        value = int(self.values[row])
        if value == NULL:
            return None
        if self.items is not None:
            start = int(np.maximum(self.values[:row], 0).sum())
            return [int(item) for item in self.items[start : start + value]]
        return value if self.texts is None else self.texts[value]


def empty(count: int) -> Column:
    """A column of rows that all lack the field."""
    return Column(np.full(count, NULL))


class Table:
    """Columns of one length, by name."""

    def __init__(self, columns: Mapping[str, Column], count: int | None = None) -> None:
        self.columns = dict(columns)
        self.count = len(next(iter(self.columns.values()))) if count is None else count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> Ints:
        """The values of a column; all NULL where the table has none of that name."""
        column = self.columns.get(name)
        return np.full(self.count, NULL) if column is None else column.values

    def filled(self, name: str) -> Ints:
        """The values of a column of quantities, 0 where the record has none."""
        values = self[name]
        return np.where(values == NULL, 0, values)

    def take(self, order: Ints) -> Table:
        """Some rows, in some order; an index below 0 is a row that lacks everything."""
        return Table({name: column.take(order) for name, column in self.columns.items()}, len(order))

    def row(self, index: int) -> dict[str, Any]:
        """One row as the record had it, absent fields left out."""
        return {name: value for name, column in self.columns.items() if (value := column[index]) is not None}


class _Codes(dict[Any, int]):
    """Numbers of texts, in the order in which they first come."""

    def __init__(self) -> None:
        super().__init__({None: NULL})
        self.texts: dict[str, int] = {}

    def __missing__(self, value: Any) -> int:
        self[value] = code = self.texts.setdefault(str(value), len(self.texts))
        return code


@dataclass
class Collector:
    """Takes the fields of records, one record after the other, and makes a table of them."""

    fields: Sequence[Field]
    _rows: list[Any] = field(default_factory=list)
    _parts: list[list[Ints]] = field(default_factory=list)
    _texts: dict[str, _Codes] = field(default_factory=dict)
    _items: dict[str, list[Ints]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._get = attrgetter(*(one.name for one in self.fields))

    def add(self, record: Any) -> None:
        """The fields of a record."""
        self._rows.append(self._get(record))
        if len(self._rows) == BATCH:
            self._flush()

    def table(self) -> Table:
        """All of them."""
        self._flush()
        columns = {}
        for i, one in enumerate(self.fields):
            values = np.concatenate([part[i] for part in self._parts]) if self._parts else np.zeros(0, np.int64)
            items = self._items.get(one.name)
            texts = list(self._texts[one.name].texts if one.name in self._texts else ()) if _is_text(one) else None
            joined = None if one.kind != "ints" else np.concatenate(items) if items else np.zeros(0, np.int64)
            columns[one.name] = Column(values, texts, joined)
        return Table(columns)

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True) if len(self.fields) > 1 else [tuple(self._rows)]
            self._parts.append([self._column(one, values) for one, values in zip(self.fields, columns, strict=True)])
            self._rows.clear()

    def _column(self, one: Field, values: tuple[Any, ...]) -> Ints:
        if one.kind == "ints":
            items = self._items.setdefault(one.name, [])
            items.extend(np.array([clamped(item) for item in value], np.int64) for value in values if value)
            return np.array([NULL if value is None else len(value) for value in values], np.int64)
        if _is_text(one):
            codes = self._texts.setdefault(one.name, _Codes())
            plain = map(_joined, values) if one.kind in ("texts", "object", "objects") else values
            return np.array([codes[value] for value in plain], np.int64)
        return _ints(values)


def _is_text(one: Field) -> bool:
    return one.kind not in ("int", "flag", "ints")


def _joined(value: Any) -> str | None:
    """A list of names as one text."""
    return None if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def clamped(value: int) -> int:
    """An integer that a column can hold: what reaches beyond 64 bits is the largest or smallest that does not."""
    return min(max(value, NULL + 1), -(NULL + 1))


def _ints(values: Iterable[Any]) -> Ints:
    try:
        return np.array([NULL if value is None else value for value in values], np.int64)
    except OverflowError:
        return np.array([NULL if value is None else clamped(int(value)) for value in values], np.int64)
