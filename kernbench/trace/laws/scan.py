"""A reader of lines as kernbench writes them, which makes no Python object for each value.

Such a line has the event type, `t_cycle`, the fields of the event in the order of the schema, and then other common fields. The
line has no spaces, no escapes and only ASCII characters. msgspec reads all other lines, and reports their errors.
"""

from __future__ import annotations

from typing import Any

from kernbench.trace.events import MAX_NUMBER
from kernbench.trace.laws.line import COUNTS, NAMES, OBJECTS, OMITTED, Line
from kernbench.trace.schema import COMMON_FIELDS, EVENTS, Event, Field

_KINDS = {"int": 0, "text": 1, "number": 2, "flag": 3, "label": 4, "ints": 5, "texts": 6}
_COMPILED = not __file__.endswith(".py")
_HEAD = b'{"event_type":"'
_TRUE, _FALSE = b"true", b"false"
_SLOTS = 256  # a power of two
_OMITTED = OMITTED  # a machine integer in compiled code
_MAX_TEXTS = 4096  # texts that are kept for each field, such as names of tracks and types of jobs


class Text:
    """A text that was read, and its value."""

    def __init__(self, text: bytes, value: str) -> None:
        self.text = text
        self.start = self.text
        self.size = len(text)
        self.value = value


class Member:
    """One field of an event: how it is written, and where its value goes."""

    def __init__(self, field: Field, required: bool) -> None:
        self.text = b',"%b":' % field.name.encode()
        self.key = self.text
        self.size = len(self.text)
        self.kind = _KINDS[field.kind]
        self.required = required
        self.first = self.text[2]
        self.counted = field.name in COUNTS
        self.needed = field.name in NAMES  #: by a law
        #: index in COUNTS or OBJECTS, if a law needs the field
        self.index = (COUNTS if self.counted else OBJECTS).index(field.name) if self.needed else -1
        self.closed = bool(field.choices)  #: whether only the texts of `texts` are allowed
        #: the allowed texts, or the texts that were read
        self.texts = {choice.encode(): Text(choice.encode(), choice) for choice in field.choices}
        self.slots: list[Text | None] = [None] * _SLOTS  #: the latest texts, by the slot that their characters select


class Layout:
    """The fields of an event in the order in which they are written."""

    def __init__(self, event: Event) -> None:
        own = {field.name for field in event.fields}
        first, *common = COMMON_FIELDS
        self.event = event
        self.number = event.number
        self.component = event.component
        self.text = b'%b%b","%b":' % (_HEAD, event.name.encode(), first.name.encode())
        self.head = self.text
        self.size = len(self.text)
        fields = [(field, field.required) for field in event.fields if field.kind in _KINDS]
        fields += [(field, False) for field in common if field.name not in own]
        self.members = [Member(field, required) for field, required in fields]
        #: Number of the last members that a line may omit and that no law needs.
        needed = [required or field.name in NAMES for field, required in fields]
        self.optional = needed[::-1].index(True) if True in needed else len(needed)
        self.has_unit = "unit" in own
        self.next: Layout | None = None  #: the layout of the line that followed last time


class Scan:
    """Reads lines into one `Line`."""

    def __init__(self) -> None:
        self.line = Line()
        self._layouts: dict[bytes, Layout] = {}
        self._slots: list[Layout | None] = [None] * _SLOTS  # the latest layouts, by the slot that the event's name selects
        self._head = _HEAD
        self._head_size = len(_HEAD)
        for event in EVENTS:
            if event.name not in ("TRACE_META", "TRACE_END"):
                self._layouts[event.name.encode()] = Layout(event)
        self._last = Layout(EVENTS[0])  # layout of the last line that was read
        self._block = b""  # lines
        self._p = self._block
        self._size = 0
        self._at = 0  # offset of the next value
        self._value = 0

    def open(self, block: bytes) -> None:
        """Read lines of this block from now on."""
        self._block = block
        self._p = self._block
        self._size = len(block)

    def next(self, at: int) -> int:
        """Read the line that begins at an offset of the open block, and return the offset after it; -1 if msgspec has to read
        the line.
        """
        p = self._p
        size = self._size
        layout = self._last.next
        if layout is None or not self._same(at, layout.head, layout.size):
            if not self._same(at, self._head, self._head_size):
                return -1
            start = end = at + self._head_size
            mixed = 0
            while end < size and p[end] != 34:  # "
                mixed = (31 * mixed + p[end]) & 65535
                end += 1
            slot = (mixed ^ (mixed >> 8)) & (_SLOTS - 1)
            layout = self._slots[slot]
            if layout is None or not self._same(at, layout.head, layout.size):
                layout = self._layouts.get(self._block[start:end])
                if layout is None or not self._same(at, layout.head, layout.size):
                    return -1
                self._slots[slot] = layout
            self._last.next = layout
        self._last = layout
        self._at = at + layout.size
        if not self._int():
            return -1
        line = self.line
        line.event = layout.event
        line.number = layout.number
        line.component = layout.component
        line.t_cycle = self._value
        if not layout.has_unit:
            line.unit = None
        left = len(layout.members)
        for member in layout.members:
            if left <= layout.optional and self._at < size and p[self._at] == 125:  # }
                break
            left -= 1
            at = self._at
            # Comparing the first character of the name first is enough to detect most omitted fields.
            if at + 2 < size and p[at + 2] == member.first and self._same(at, member.key, member.size):
                self._at += member.size
                if not self._value_of(member):
                    return -1
            elif member.required:
                return -1
            elif member.counted:
                line.count(member.index, _OMITTED)
            elif member.needed:
                line.set(member.index, None)
        end = self._at
        if end + 1 >= size or p[end] != 125 or p[end + 1] != 10:  # } and a line feed
            return -1
        return end + 2

    def _value_of(self, member: Member) -> bool:
        """Read the value of a field, and move past it."""
        kind = member.kind
        if kind == 0 or (kind == 4 and self._at < self._size and self._p[self._at] != 34):
            if not self._int():
                return False
            if member.counted:
                self.line.count(member.index, self._value)
            return True
        if kind == 1 or kind == 4:
            return self._text(member)
        if kind == 2:
            return self._number(member)
        if kind == 3:
            true = self._same(self._at, _TRUE, 4)
            if not true and not self._same(self._at, _FALSE, 5):
                return False
            self._at += 4 if true else 5
            return True
        return self._list(member)

    def _same(self, at: int, text: bytes, length: int) -> bool:
        """Whether the bytes at an offset equal a text."""
        if not _COMPILED:
            return self._block.startswith(text, at)
        p: Any = self._p
        return at + length <= self._size and not memcmp(p + at, text, length)  # type: ignore[name-defined]  # noqa: F821

    def _int(self) -> bool:
        """Read an integer of at most 18 digits."""
        p = self._p
        size = self._size
        start = at = self._at
        value = 0
        while at < size and 48 <= p[at] <= 57 and at < start + 18:
            value = 10 * value + p[at] - 48
            at += 1
        if not start < at < size or 48 <= p[at] <= 57 or (p[start] == 48 and at > start + 1):
            return False
        self._at = at
        self._value = value
        return True

    def _text(self, member: Member) -> bool:
        p = self._p
        size = self._size
        start = self._at + 1
        if start >= size or p[start - 1] != 34:
            return False
        end = start
        mixed = 0
        while end < size and p[end] != 34:
            if p[end] < 32 or p[end] > 126 or p[end] == 92:  # a backslash
                return False
            mixed = (31 * mixed + p[end]) & 65535
            end += 1
        if end == size:
            return False
        self._at = end + 1
        if not member.needed and not member.closed:
            return True
        slot = (mixed ^ (mixed >> 8)) & (_SLOTS - 1)
        known = member.slots[slot]
        if known is None or known.size != end - start or not self._same(start, known.start, known.size):
            known = self._known(self._block[start:end], member)
            if known is None:
                return False
            member.slots[slot] = known
        if member.needed:
            self.line.set(member.index, known.value)
        return True

    def _known(self, text: bytes, member: Member) -> Text | None:
        """A text that is not the latest one of its slot; None if the field must not have the text."""
        found = member.texts.get(text)
        if found is None and not member.closed:
            found = Text(text, text.decode("ascii"))
            if len(member.texts) < _MAX_TEXTS:
                member.texts[text] = found
        return found

    def _number(self, member: Member) -> bool:
        """Read a number without sign and exponent."""
        p = self._p
        size = self._size
        start = self._at
        if not self._int():
            return False
        if p[self._at] != 46:  # a decimal point
            if p[self._at] == 69 or p[self._at] == 101:  # an exponent
                return False
            if member.needed:
                self.line.set(member.index, self._value)
            return True
        at = self._at + 1
        while at < size and 48 <= p[at] <= 57:
            at += 1
        if at == self._at + 1 or at == size or p[at] == 69 or p[at] == 101:
            return False
        self._at = at
        if member.needed:
            self.line.set(member.index, float(self._block[start:at]))
        return True

    def _list(self, member: Member) -> bool:
        """Read a list of integers or texts; texts are skipped because no law needs them."""
        p = self._p
        size = self._size
        at = self._at
        if at + 1 >= size or p[at] != 91:  # [
            return False
        found: list[int] = []
        if p[at + 1] == 93:  # ]
            self._at = at + 2
        else:
            while True:
                self._at += 1
                if member.kind == 5:
                    if not self._int():
                        return False
                    if member.needed:
                        found.append(self._value)
                elif not self._text(_ANY_TEXT):
                    return False
                at = self._at
                if at < size and p[at] == 93:
                    self._at = at + 1
                    break
                if at >= size or p[at] != 44:  # a comma
                    return False
        if member.needed:
            self.line.set(member.index, found)
        return True


_ANY_TEXT = Member(Field("", "text", ""), True)
assert MAX_NUMBER > 10**18  # then a number of at most 18 digits before the decimal point is in range
