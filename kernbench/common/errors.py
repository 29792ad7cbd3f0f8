"""The errors of kernbench: `InputError` is a mistake of the user, `InternalError` is a bug of kernbench.

A `Problem` is one reason for an error: location, field, value, rule and remedy. It is shown as one line:

    prog.json:57:5: cmdq[12] (id 12, TE_GEMM_TILE): te_id = 3, but the machine has 2 tensor engines
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

if TYPE_CHECKING:
    from fractions import Fraction
    from types import TracebackType

MAX_PROBLEMS_SHOWN = 20
_MAX_VALUE_CHARS = 60
_MOST_DECIMALS = 12


class _Absent:
    """The type of `ABSENT`, which is the `value` of a problem without a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


def shown(value: Any) -> str:
    """A value in the form of error messages: similar to JSON, on one short line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        # str() of a huge integer is slow, and Python refuses integers of more than 4300 digits.
        return str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        text = value if len(value) <= _MAX_VALUE_CHARS else value[: _MAX_VALUE_CHARS - 3] + "..."
        return f'"{_printable(text)}"'
    if isinstance(value, dict):
        size = f"{len(value)} keys" if len(value) > 1 else "1 key"
        return f"a mapping of {size}" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return _shown_list(value)
    if type(value).__name__ == "Fraction" and (decimal := _decimal(value)):  # by name: most commands need no fractions
        return decimal
    try:
        text = str(value)
    except ValueError:
        return f"a {type(value).__name__} of too many digits"
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 3] + "..."


def _decimal(value: Fraction) -> str:
    """A number as decimals, as a user writes it (`4.5`, not `9/2`); empty if it has none or too many."""
    places = next((n for n in range(_MOST_DECIMALS + 1) if 10**n % value.denominator == 0), None)
    if places is None or value.numerator.bit_length() >= 200:
        return ""
    digits = f"{abs(value.numerator) * 10**places // value.denominator:0{places + 1}}"
    return f"{'-' * (value < 0)}{digits[: len(digits) - places]}{f'.{digits[-places:]}' if places else ''}"


def text_of(value: Any, text: Callable[[Any], str] = str) -> str | None:
    """The text of an exception or object of the user's code, or None if its `__str__` fails."""
    try:
        return text(value)
    except Exception:  # code of the user can raise any exception
        return None


def error_text(error: BaseException) -> str:
    """`IndexError: index 9 is out of bounds`, also for exceptions whose `__str__` fails."""
    text = text_of(error)
    return f"{type(error).__name__}: {'its text cannot be had: its __str__ fails' if text is None else text}"


def traceback_text(error: BaseException, frames: TracebackType | None) -> str:
    """The traceback of an exception in the user's code, limited to these frames; for a misspelt attribute of a kernbench
    object, the text names the probable attribute."""
    import traceback  # importing traceback takes as long as importing this whole module

    text = "".join(traceback.format_exception(type(error), error, frames))
    ours = isinstance(error, AttributeError) and type(error.obj).__module__.startswith("kernbench")
    if not ours or "Did you mean" in text:  # from Python 3.12 on, Python itself suggests the name
        return text
    from kernbench.common.spelling import nearest

    near = nearest(error.name, [name for name in dir(error.obj) if not name.startswith("_")])  # type: ignore[attr-defined]
    return f"{text.rstrip()}. Did you mean: '{near}'?\n" if near else text


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _shown_list(value: list[Any] | tuple[Any, ...]) -> str:
    """Short flat lists in full, other lists by their length."""
    if len(value) <= 8 and all(item is None or isinstance(item, (bool, int, str)) for item in value):
        text = "[" + ", ".join(shown(item) for item in value) + "]"
        if len(text) <= _MAX_VALUE_CHARS:
            return text
    return f"a list of {len(value)} items"


class Problem(msgspec.Struct, frozen=True):
    """One reason why input is refused.

    >>> from kernbench.common.errors import Problem
    >>> print(Problem("npu.yaml:3:5", "it must be at least 1", "te.engines", 0))
    npu.yaml:3:5: te.engines = 0, but it must be at least 1
    """

    where: str  #: file, line and entry, if known: `npu.yaml:12:13`, `prog.json: cmdq[12] (id 12, NOP)`
    rule: str  #: the rule, as a clause: `it must be at least 1`
    field: str = ""  #: the path of the field inside `where`; empty if the problem is not about one field
    value: Any = ABSENT  #: the rejected value
    remedy: str = ""  #: the fix, if the rule does not imply it

    def __str__(self) -> str:
        text = f"{self.where}: "
        if self.field and self.value is not ABSENT:
            text += f"{self.field} = {shown(self.value)}, but {self.rule}"
        elif self.field:
            text += f"{self.field}: {self.rule}"
        else:
            text += self.rule
        # Names and keys come from the user, so a line feed in a name must not split the line.
        return _printable(f"{text}; {self.remedy}" if self.remedy else text)


class KernbenchError(Exception):
    """The base class of all errors that kernbench raises on purpose. `exit_code`: the exit code of `kbsim`.

    >>> import kernbench as kb
    >>> [error.exit_code for error in (kb.KernbenchError, kb.InputError, kb.InternalError)]
    [1, 2, 70]
    """

    exit_code: ClassVar[int] = 1


class InputError(KernbenchError):
    """Input that is not valid. `problems` has all reasons; the text has one line for each of the first 20.

    >>> import kernbench as kb
    >>> try:
    ...     kb.load_config("npu_server", {"te.engines": 0})
    ... except kb.InputError as error:
    ...     print(error.problems[0].field, error.problems[0].rule)
    te.engines it must be at least 1
    """

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
    """A bug of kernbench, never a mistake of the user.

    >>> import kernbench as kb
    >>> issubclass(kb.InternalError, kb.KernbenchError)
    True
    """

    exit_code = 70
