"""YAML read from its events: decimals are exact, and ambiguous texts are refused.

This module, and not PyYAML, resolves plain scalars. Texts that YAML 1.1 and 1.2 or two readers interpret differently (`1e3`,
`on`, `012`, `12:30`, `1_000`, dates) are therefore refused, and so are anchors, aliases, merge keys, tags, duplicate keys and
further documents. Events are read instead of nodes, so the depth is limited and no alias can expand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from kernbench.common.units import MAX_DIGITS, parse_decimal
from kernbench.config.places import KEY, TWICE, Fault, TextPosition

if TYPE_CHECKING:
    import yaml

_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = r"[-+]?(0|[1-9][0-9]*)"
_HEX = r"0x[0-9a-fA-F]+"
_DECIMAL = r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?"
_QUOTE = "quote it if it is text"

#: Refused texts: a pattern (compiled on first use), the interpretations of readers, and the remedy.
_TRAPS: tuple[tuple[str, str, str], ...] = (
    (r"(?i:yes|no|on|off)", "YAML 1.1 reads it as a boolean", "write true or false, or quote it"),
    (
        r"[-+]?0[0-9_]+|[-+]?0o[0-7_]+",
        "YAML versions disagree whether it is octal",
        "write it in decimal or as 0x..",
    ),
    (r"[-+]?0b[01_]+", "YAML versions disagree whether it is binary", "write it in decimal or as 0x.."),
    (
        r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?",
        "YAML 1.1 reads it as a number in base 60",
        _QUOTE,
    ),
    (
        r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+",
        "YAML 1.1 reads it as text",
        "write it without an exponent, or like 1.0e+3",
    ),
    (r"[-+]?\.(?i:inf|nan)", "it is not a finite number", ""),
    (
        r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?",
        "YAML versions disagree whether it is a number",
        "write it without _",
    ),
    (r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?", "YAML 1.1 reads it as a date", _QUOTE),
    (r"=|<<", "it has a special meaning in YAML 1.1", _QUOTE),
)


def parse(text: str, max_depth: int) -> Any:
    """The data of the text; Fault with the location of the first refused part."""
    try:
        text.encode()
    except UnicodeEncodeError as error:  # such text comes from a command line that is not UTF-8
        raise Fault((1, error.start + 1), "it is not valid text") from None
    root: list[Any] = []
    holders: list[Any] = [root]
    for path, place, kind, value, is_key in _walk(text, max_depth):
        holder = holders[-1]
        if kind == "close":
            holders.pop()
        elif is_key:
            if value in holder or _twin(value) in holder:
                raise Fault(place, TWICE, tuple(path))
            holder[value] = None  # placeholder until its value is read
        else:
            if isinstance(holder, dict):
                holder[path[-1]] = value
            else:
                holder.append(value)
            if kind == "open":
                holders.append(value)
    if not root:
        raise Fault((1, 1), "the file is empty")
    return root[0]


def _twin(key: str | int) -> str | int:
    """The same key with the other type: `8` and `"8"`."""
    if isinstance(key, int):
        return str(key)
    return int(key) if re.fullmatch(_INTEGER, key) and len(key) <= MAX_DIGITS else key


def places(text: str, wanted: Collection[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], TextPosition]]:
    """(path, place) of the `wanted` keys and values of a text that `parse` has read."""
    key = str(KEY)
    for path, place, kind, _, is_key in _walk(text, len(text)):
        if kind != "close":
            steps = (*map(str, path), key) if is_key else tuple(map(str, path))
            if steps in wanted:
                yield steps, place


def _walk(text: str, max_depth: int) -> Iterator[tuple[list[Any], TextPosition, str, Any, bool]]:
    """(path, place, `open`, `close` or `scalar`, value, is a key) in order; the path is live: copy it to keep it."""
    import yaml  # imported here, because cached data need no reader

    path: list[Any] = []
    mappings: list[bool] = []  # per open container: it is a mapping
    key_next = False  # the innermost container is a mapping, and its next scalar is a key
    for event, place in _events(text):
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event, place, path[:-1] if key_next else path)
            if key_next:
                if not isinstance(value, (str, int)) or isinstance(value, bool):
                    raise Fault(place, "a key must be text or an integer", tuple(path[:-1]), value)
                path[-1] = value
                yield path, place, "scalar", value, True
                key_next = False
                continue
            yield path, place, "scalar", value, False
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if key_next:
                raise Fault(place, "a key must be text or an integer", tuple(path[:-1]))
            if len(mappings) >= max_depth:
                raise Fault(place, f"it is nested deeper than {max_depth} levels", tuple(path[:8]))
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            yield path, place, "open", {} if is_mapping else [], False
            mappings.append(is_mapping)
            path.append(0)
            key_next = is_mapping
            continue
        else:
            mappings.pop()
            path.pop()
            yield path, place, "close", None, False
        # A value has ended: its container continues with the next key or item.
        key_next = bool(mappings) and mappings[-1]
        if mappings and not mappings[-1]:
            path[-1] += 1


def _events(text: str) -> Iterator[tuple[yaml.Event, TextPosition]]:
    """The events of the only document; forbidden events are refused."""
    import yaml

    documents = 0
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            place = _mark_place(event.start_mark)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise Fault(place, "a second document begins here", remedy="write one document per file")
            elif isinstance(event, yaml.AliasEvent):
                raise Fault(
                    place,
                    f"the alias *{event.anchor} is not allowed, because YAML aliases are not supported",
                    remedy="write the value out",
                )
            elif isinstance(event, yaml.NodeEvent):
                if event.anchor is not None:
                    raise Fault(place, f"the anchor &{event.anchor} is not read", remedy="leave it out")
                tag = getattr(event, "tag", None)
                if tag is not None:
                    raise Fault(place, f"the tag {tag} is not read", remedy="leave it out")
                yield event, place
            elif isinstance(event, yaml.CollectionEndEvent):
                yield event, place
    except yaml.MarkedYAMLError as error:
        # The parser notices a missing colon or quote lines later; the mistake is where the key or the text begins.
        late = str(error.context).endswith(("scanning a simple key", "scanning a quoted scalar"))
        mark = (error.context_mark if late else error.problem_mark) or error.context_mark
        at = _mark_place(mark) if mark is not None else (1, 1)
        line = (text.split("\n")[at[0] - 1 :] or [""])[0]
        tabs = line[: len(line) - len(line.lstrip())].count("\t")
        remedy = _TABS if tabs else _REMEDIES.get(error.problem or "", "")
        raise Fault(at, f"this is not valid YAML: {error.problem or error.context}", remedy=remedy) from None
    except yaml.reader.ReaderError as error:
        at = _reader_place(text, error, libyaml=loader is not yaml.SafeLoader)
        raise Fault(at, f"this is not valid YAML: {error.reason}") from None


_TABS = "indent with spaces, because YAML allows no tabs in an indentation"
#: What to do about a problem that the parser names.
_REMEDIES = {
    "could not find expected ':'": "write a colon and a space between the key and its value",
    "found unexpected end of stream": "close the quotation mark that begins here",
    "did not find expected key": "indent all keys of a mapping equally",
}


def _mark_place(mark: Any) -> TextPosition:
    return mark.line + 1, mark.column + 1


def _reader_place(text: str, error: yaml.reader.ReaderError, *, libyaml: bool) -> TextPosition:
    """The location of an error: PyYAML gives an index into the text, libyaml one into its UTF-8 bytes."""
    before = text.encode()[: error.position].decode(errors="ignore") if libyaml else text[: error.position]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _scalar(event: yaml.ScalarEvent, place: TextPosition, path: list[Any]) -> Any:
    text: str = event.value
    if not event.implicit[0]:  # quoted, or a block scalar
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    first = text[0]
    if first.isalpha() and first not in "yYnNoO":
        return text
    if len(text) > MAX_DIGITS + 4 and any(re.fullmatch(form, text) for form in (_INTEGER, _HEX, _DECIMAL)):
        raise Fault(place, f"a number must have at most {MAX_DIGITS} digits", tuple(path))
    if re.fullmatch(_INTEGER, text):
        return int(text)
    if re.fullmatch(_HEX, text):
        return int(text, 16)
    if re.fullmatch(_DECIMAL, text):
        try:
            return parse_decimal(text)
        except ValueError as error:
            raise Fault(place, str(error), tuple(path), text) from None
    for pattern, reading, remedy in _TRAPS:
        if re.fullmatch(pattern, text):
            raise Fault(place, f"the value {text} is not allowed, because {reading}", tuple(path), remedy=remedy)
    return text
