"""What can go wrong, by whose mistake: the user's (`InputError`) or ours (`InternalError`).

A `Problem` is one refusal: where it is, which field, the value found, the rule it breaks and what to do about it.
One line of text comes out of it, in the form

    prog.json:57:5: cmdq[12] (id 12, TE_GEMM_TILE): te_id = 3, but the machine has 2 tensor engines
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

MAX_PROBLEMS_SHOWN = 20
_MAX_VALUE_CHARS = 60


class _Absent:
    """The type of `ABSENT`: no value belongs to this problem."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


def shown(value: Any) -> str:
    """A value as an error line shows it: JSON-like, one line, never long, whatever the value is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        # str() of a huge integer is slow, and Python refuses it past 4300 digits.
        return str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        text = value if len(value) <= _MAX_VALUE_CHARS else value[: _MAX_VALUE_CHARS - 3] + "..."
        return f'"{_printable(text)}"'
    if isinstance(value, dict):
        return f"a mapping of {len(value)} keys" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return _shown_list(value)
    try:
        text = str(value)
    except ValueError:
        return f"a {type(value).__name__} of too many digits"
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 3] + "..."


def text_of(value: Any, text: Callable[[Any], str] = str) -> str | None:
    """The text of an exception that users' code raised, or of another object of theirs; None where its `__str__` fails."""
    try:
        return text(value)
    except Exception:  # their code: whatever it raises
        return None


def error_text(error: BaseException) -> str:
    """`IndexError: index 9 is out of bounds`, also of exceptions whose text cannot be had."""
    text = text_of(error)
    return f"{type(error).__name__}: {'its text cannot be had: its __str__ fails' if text is None else text}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _shown_list(value: list[Any] | tuple[Any, ...]) -> str:
    """Short flat lists are written out, others are counted."""
    if len(value) <= 8 and all(item is None or isinstance(item, (bool, int, str)) for item in value):
        text = "[" + ", ".join(shown(item) for item in value) + "]"
        if len(text) <= _MAX_VALUE_CHARS:
            return text
    return f"a list of {len(value)} items"


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal of the user's input."""

    where: str  #: file, line and entry, as far as they are known: `npu.yaml:12:13`, `prog.json: cmdq[12] (id 12, NOP)`
    rule: str  #: what is allowed, as a clause: `it must be at least 1`
    field: str = ""  #: the field's path inside `where`; empty when the problem is not one field's
    value: Any = ABSENT  #: what was found there
    remedy: str = ""  #: what to do about it, where the rule does not say so itself

    def __str__(self) -> str:
        text = f"{self.where}: "
        if self.field and self.value is not ABSENT:
            text += f"{self.field} = {shown(self.value)}, but {self.rule}"
        elif self.field:
            text += f"{self.field}: {self.rule}"
        else:
            text += self.rule
        # Names and keys come from the user: a line feed in one must not make two lines.
        return _printable(f"{text}; {self.remedy}" if self.remedy else text)


class KernbenchError(Exception):
    """Base of every error that kernbench raises on purpose; `exit_code` is what `kbsim` ends with."""

    exit_code: ClassVar[int] = 1


class InputError(KernbenchError):
    """The user's input is refused; `problems` says why, and str() is one line a problem (the first 20)."""

    exit_code = 2

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        found = [problems] if isinstance(problems, Problem) else list(problems)
        if not found:
            raise InternalError("InputError raised without a problem")
        self.problems: list[Problem] = found
        super().__init__(found)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:MAX_PROBLEMS_SHOWN]]
        more = len(self.problems) - MAX_PROBLEMS_SHOWN
        if more > 0:
            lines.append(f"and {more} more")
        return "\n".join(lines)


class InternalError(KernbenchError):
    """A promise inside kernbench was broken: our bug, never the user's."""

    exit_code = 70
