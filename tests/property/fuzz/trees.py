"""Changes of plain data (dicts, lists and values) and of the texts and bytes that hold it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import yaml

from tests.property.fuzz.values import chosen, nested, strange

Place = tuple[Any, Any]  # a dict or list, and the key or index in it

#: Pieces that texts of JSON and YAML do not expect.
PIECES = (
    b"\xff", b"\xef\xbb\xbf", b"\0", b"{", b"[" * 300, b"[" * 100_000, b'{"a":' * 1000, b'"', b"NaN", b"Infinity", b"1e9999999",
    b"9" * 5000, b"0x10", b"1_000", b"\\ud800", b",", b": ", b"\n- ", b"&a ", b"*a ", b"!!x ", b"!!python/object:os.system ",
    b"<<: ", b"---\n", b"...\n", b"on", b"012", b"? ", b"|", b"\t", b"-", b"#", b"\xe2\x80\xa8", b"\r", b"\n\n", b"}" * 10,
    b"&a [*a, *a]", b"12:30", b"2020-01-01", b"=", b"~",
)  # fmt: skip


def places(data: Any) -> list[Place]:
    """Every (container, key or index) of some data."""
    found: list[Place] = []
    stack = [data]
    while stack:
        holder = stack.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)) and holder[key]:
                stack.append(holder[key])
    return found


def changed(rng: Random, data: Any, more: Iterable[str] = ()) -> Any:
    """A copy of some data with one to four changes. `more`: keys that the format knows and the data may not have."""
    made = copy.deepcopy(data)
    known = list(more)
    if rng.random() < 0.4:  # what may well be accepted, and reaches further
        for _ in range(rng.choice((1, 1, 2, 4))):
            _nudge(rng, made)
        return made
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        made = _change(rng, made, known)
    return made


def _nudge(rng: Random, data: Any) -> None:
    """A number that is a little other, of the same key elsewhere, or a round one; a value left out; neighbours swapped."""
    found = places(data) if isinstance(data, (dict, list)) else []
    numbers = [(holder, key) for holder, key in found if type(holder[key]) in (int, float)]
    if not numbers or rng.random() < 0.2:
        if found:
            way = rng.choice((_swap, _copy_same_key, _delete))
            way(rng, *chosen(rng, found), found, [])
        return
    holder, key = chosen(rng, numbers)
    was = holder[key]
    same = [other[name] for other, name in numbers if name == key]
    holder[key] = rng.choice((was + 1, was - 1, was * 2, was * 16, was // 2, 0, 1, 2, 4096, rng.choice(same), rng.choice(same)))


def _change(rng: Random, data: Any, known: list[str]) -> Any:
    found = places(data) if isinstance(data, (dict, list)) else []
    if not found or rng.random() < 0.005:
        return strange(rng, data)
    holder, key = chosen(rng, found)
    way = rng.choices(_WAYS, _WEIGHTS)[0]
    way(rng, holder, key, found, known)
    return data


def _replace(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    holder[key] = strange(rng, holder[key])


def _delete(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    del holder[key]


def _copy_same_key(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    """A value that stands under the same key elsewhere: of the right type, and wrong here."""
    others = [other for other, name in found if name == key and isinstance(other, dict) and other is not holder]
    if isinstance(key, str) and others:
        holder[key] = copy.deepcopy(rng.choice(others)[key])
    else:
        _copy(rng, holder, key, found, known)


def _copy(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    other, name = rng.choice(found)
    value = other[name]
    if not isinstance(value, (dict, list)) or len(places(value)) < 1000:
        holder[key] = copy.deepcopy(value)


def _swap(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    """Neighbours change places; in a dict, values of two keys."""
    if isinstance(holder, list):
        other = (key + 1) % len(holder)
    else:
        other = rng.choice(list(holder))
    holder[key], holder[other] = holder[other], holder[key]


def _add(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]) if rng.random() < 0.5 else strange(rng, holder[key]))
        return
    names = [name for _, name in found if isinstance(name, str)] + known or ["x"]
    value = strange(rng, 1) if rng.random() < 0.5 else copy.deepcopy(rng.choice(found)[0])
    holder[rng.choice(names)] = value if not isinstance(value, (dict, list)) or len(places(value)) < 1000 else 1


def _rename(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    if isinstance(holder, dict):
        holder[str(strange(rng, str(key)))] = holder.pop(key)
    else:
        _swap(rng, holder, key, found, known)


def _repeat(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    """A list many times as long, or cut off."""
    lists = [(other, name) for other, name in found if isinstance(other[name], list)]
    if not lists:
        return _replace(rng, holder, key, found, known)
    other, name = rng.choice(lists)
    was = other[name]
    if rng.random() < 0.4:
        other[name] = was[: rng.randint(0, len(was))]
    elif was:
        times = rng.choice((2, 10, 100, 3000)) if len(places(was)) < 50 else 2
        other[name] = was + [copy.deepcopy(rng.choice(was)) for _ in range(times)]
    return None


def _bury(rng: Random, holder: Any, key: Any, found: list[Place], known: list[str]) -> None:
    value = nested(rng.choice((1, 2, 5, 63, 64, 65, 150)))
    holder[key] = value


_WAYS: tuple[Callable[..., None], ...] = (_replace, _delete, _copy_same_key, _copy, _swap, _add, _rename, _repeat, _bury)
_WEIGHTS = (34, 8, 14, 8, 8, 10, 4, 8, 2)


class _Plain(yaml.CSafeDumper):
    """Without anchors: what stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_json(data: Any) -> bytes:
    """The text of some data, NaN and all."""
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def as_yaml(data: Any) -> bytes:
    """The same in YAML; what it has no form for, in JSON."""
    try:
        text: str = yaml.dump(data, Dumper=_Plain, sort_keys=False, allow_unicode=True)
    except (yaml.YAMLError, UnicodeError, RecursionError):
        return as_json(data)
    return text.encode("utf-8", "surrogatepass")


def text_of(rng: Random, data: Any, suffix: str) -> bytes:
    """Some data as a file of that name's end, now and then with a key twice or with a change of its bytes."""
    text = as_json(data) if suffix == ".json" else as_yaml(data)
    if rng.random() < 0.15:
        return bytes_changed(rng, text)
    if rng.random() < 0.04 and suffix != ".json":
        lines = text.splitlines(keepends=True)
        at = rng.randrange(len(lines))
        return b"".join([*lines[:at], lines[at], *lines[at:]])
    return text


def bytes_changed(rng: Random, data: bytes, pieces: tuple[bytes, ...] = PIECES) -> bytes:
    """Bytes cut short, dropped, doubled, swapped, overwritten, or with a piece between them: one to three times."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randint(0, len(data))
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 30, 500)))
        way = rng.randrange(8)
        if way == 0:
            data = data[:at]
        elif way == 1:
            data = data[:at] + data[end:]
        elif way == 2:
            data = data[:end] + data[at:]
        elif way == 3:
            data = data[:at] + rng.choice(pieces) + data[at:]
        elif way == 4:
            data = data[:at] + rng.randbytes(end - at) + data[end:]
        elif way == 5 and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        elif way == 6:
            data = data[:at] + data[end : 2 * end - at] + data[at:end] + data[2 * end - at :]
        else:
            other = rng.randint(0, len(data))
            data = data[:at] + data[other : other + end - at] + data[end:]
    return data
