"""Rules of Triton's compiler for variables (`portable`): their types in loops and branches, and where they are defined.

`scopes.py` puts calls of these classes around the loops and the `if` statements of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from kernbench.triton.constants import plain
from kernbench.triton.control import range as tl_range
from kernbench.triton.control import static_range
from kernbench.triton.dtypes import TritonError, common, dtype, of_number
from kernbench.triton.errors import CompilationError, UnsupportedLanguageConstruct
from kernbench.triton.literals import RETURNED
from kernbench.triton.program import current
from kernbench.triton.tensor import tensor

Lines = Sequence[tuple[str, int]]  #: of assigned names: the line of the last assignment


def refuse_syntax(where: str, what: str) -> NoReturn:
    """The error for a part of Python that Triton's compiler does not have."""
    raise UnsupportedLanguageConstruct(f"{where}: Triton's compiler does not support {what} in kernels")


def refuse_again(where: str, name: str, now: dict[str, Any]) -> None:
    """Raise CompilationError if a name exists before the statement that declares it as a constant."""
    there = name in now
    now.clear()
    if there:
        raise CompilationError(
            f"{where}: {name} is already defined. constexpr cannot be reassigned, as Triton's compiler says; give the constant "
            "another name"
        )


def of_text(where: str, value: Any, numbers: Sequence[Any]) -> Any:
    """Return a value for a place in an f-string. A tensor, or a value of variables that are tensors in Triton, is refused."""
    if any(isinstance(one, tensor | bool | int | float) for one in numbers) or isinstance(value, (tensor, tuple, *RETURNED)):
        refuse_syntax(where, "f-strings of values that are not constants")
    return value


def of_tuple(where: str, value: Any) -> Any:
    """Return the iterable of a list comprehension. Anything else than a tuple is refused."""
    if not isinstance(value, tuple):
        refuse_syntax(where, "comprehensions over anything but tuples")
    return value


class Kind(NamedTuple):
    """The type of a variable."""

    text: str  #: as Triton's compiler writes it
    number: dtype | None = None  #: of a plain number, which is a tensor without axes in Triton
    element: dtype | None = None  #: of a tensor without axes that holds no pointer
    parts: tuple[Kind, ...] | None = None  #: of a tuple

    @classmethod
    def of(cls, value: Any) -> Kind:
        value = plain(value)
        if isinstance(value, tensor):
            shape = value.shape
            if shape:
                return cls(f"<{list(shape)}, {value.dtype}>")
            return cls(str(value.dtype), element=None if value.dtype.is_ptr() else value.dtype)
        if isinstance(value, bool | int | float):
            number = of_number(value)
            return cls(str(number), number, number)
        if isinstance(value, tuple):
            parts = tuple(cls.of(one) for one in value)
            return cls(f"({', '.join(one.text for one in parts)})", parts=parts)
        return cls("None" if value is None else type(value).__name__)

    def stays(self, after: Kind) -> bool:
        """Whether a variable of this type keeps it.

        In Triton `total = 0.0` makes a tensor of f32, and so does `total += x` of an element of f16. In kernbench the sum has
        the type of the element, so the types of a plain number and of a sum with it may differ.
        """
        if self.parts is not None and after.parts is not None:
            same = len(self.parts) == len(after.parts)
            return same and all(one.stays(other) for one, other in zip(self.parts, after.parts, strict=True))
        if self.number is None or after.element is None or self.text == after.text:
            return self.text == after.text
        kind, other = self.number, after.element
        alike = kind.kind != "bool" and other.kind != "bool" and kind.is_floating() == other.is_floating()
        return alike and common(kind, other) == kind


class Scope:
    """A loop or an `if` statement of a kernel while it runs. `active`: it is one of the compiled code, and is not unrolled."""

    def __init__(self, where: tuple[str, str, int], before: dict[str, Any], lines: Lines, active: bool) -> None:
        """`where`: the file, the function and the line; `before`: the variables before it."""
        self.file, self.function, self.line = where
        self.lines = dict(lines)
        self.active = active
        self.before = self.kinds(before)

    def kinds(self, now: dict[str, Any]) -> dict[str, Kind]:
        """The types of the variables. The dict of their values is emptied, because a tile occupies the scratchpad as long as
        it is in a dict."""
        found = {name: Kind.of(now[name]) for name in self.lines if name in now}
        now.clear()
        return found

    def changed(self, kinds: Mapping[str, Kind]) -> Iterator[tuple[str, Kind, Kind]]:
        """Variables whose type is another than before the statement, with both types; none in a statement that is unrolled."""
        for name, kind in self.before.items() if self.active else ():
            if name in kinds and not kind.stays(kinds[name]):
                yield name, kind, kinds[name]

    def at(self, line: int) -> str:
        return f"{self.file}:{line}"

    def forgets(self, name: str, now: dict[str, Any]) -> bool:
        """Whether a name is not defined after it, although Python has a value."""
        there = name in now
        now.clear()
        if not self.active or name in self.before or not there or not self.local(name):
            return False
        what = "in one branch only of the if" if isinstance(self, Branches) else "in the loop"
        text = f"{name} is not defined: it is assigned {what} at {self.at(self.line)}; assign it before"
        current().options.forgotten[self.function, name] = text
        return True

    def local(self, name: str) -> bool:
        """Whether a name that was not there before is of one part only."""
        return True


class Loop(Scope):
    """A `for` or a `while`."""

    def __init__(self, where: tuple[str, str, int], before: dict[str, Any], lines: Lines, constants: Sequence[str],
                 over: Any = None, known: bool = False) -> None:  # fmt: skip
        """`over`: the iterable of a `for`. A loop over `tl.static_range` is unrolled, and one over a tuple is refused."""
        if not known and not isinstance(over, tl_range):
            refuse_syntax(f"{where[0]}:{where[2]}", "loops over anything but range and tl.static_range")
        super().__init__(where, before, lines, known or (isinstance(over, tl_range) and not isinstance(over, static_range)))
        self.over = over
        for name in constants:
            if self.active and name in self.lines:
                raise CompilationError(
                    f"{self.at(self.lines[name])}: cannot reassign constexpr {name} in the loop at {self.at(self.line)}; give "
                    "the new value another name"
                )

    def __iter__(self) -> Iterator[Any]:
        return iter(self.over)

    def end(self, now: dict[str, Any]) -> None:
        """The end of an iteration. CompilationError for a variable that has another type than before the loop."""
        for name, old, new in self.changed(self.kinds(now)):
            raise CompilationError(
                f"{self.at(self.lines[name])}: Loop-carried variable {name} has initial type {old.text} but is "
                f"re-assigned to {new.text} in the loop at {self.at(self.line)}; make its type before the loop the "
                "same, for example with tl.full or .to"
            )

    def leaves(self, what: str, line: int) -> None:
        """A `break`, `continue` or `return` in the loop."""
        if self.active or what != "return":
            refuse_syntax(self.at(line), f"{what} in loops")


class Branches(Scope):
    """An `if` whose condition is a tensor: Triton compiles both branches. Any other condition chooses one branch."""

    def __init__(self, where: tuple[str, str, int], before: dict[str, Any], lines: Lines, both: Sequence[str]) -> None:
        super().__init__(where, before, lines, False)
        self.both = both  #: names that both branches assign

    def see(self, value: Any, numbers: Sequence[Any] = ()) -> Any:
        """A part of the condition, and the plain variables in it, which are tensors in Triton."""
        self.active = self.active or isinstance(value, (tensor, *RETURNED))
        self.active = self.active or any(isinstance(one, tensor | bool | int | float) for one in numbers)
        return value

    def local(self, name: str) -> bool:
        return name not in self.both

    def end(self, now: dict[str, Any], branch: str) -> None:
        """The end of a branch. CompilationError for a variable whose type changes, or differs between the branches."""
        kinds = self.kinds(now)
        for name, old, new in self.changed(kinds):
            raise CompilationError(
                f"{self.at(self.lines[name])}: initial value for {name} is of type {old.text}, but the {branch} block "
                f"of the if at {self.at(self.line)} redefines it as {new.text}; make the types the same, for "
                "example with tl.full or .to"
            )
        if not self.active:
            return
        seen = current().options.branch_types
        for name in self.both:
            if name in self.before or name not in kinds:
                continue
            mine = seen.setdefault((self.at(self.line), name), {})
            mine[branch] = kinds[name]
            if len(mine) == 2 and not (mine["then"].stays(mine["else"]) or mine["else"].stays(mine["then"])):
                raise CompilationError(
                    f"{self.at(self.line)}: Mismatched type for {name} between then block ({mine['then'].text}) and else "
                    f"block ({mine['else'].text}); make the types the same, for example with tl.full or .to"
                )


def undefined(function: str, error: UnboundLocalError) -> TritonError | None:
    """The error for the use of a variable that is not defined there to Triton's compiler; None if Python says so too."""
    name = str(error).partition("'")[2].partition("'")[0]
    text = current().options.forgotten.get((function, name))
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    if text is None or frames is None:
        return None
    file = frames.tb_frame.f_code.co_filename.rpartition("/")[2]
    return CompilationError(f"{file}:{frames.tb_lineno}: {text}")
