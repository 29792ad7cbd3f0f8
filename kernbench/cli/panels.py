"""Help as text: its usage line, paragraphs, and panels of rows. The module imports nothing, so that help appears at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NAME, FRAME, VALUE, HEAD, OFF = "\x1b[1;36m", "\x1b[2m", "\x1b[1;33m", "\x1b[1m", "\x1b[0m"
_LIMIT = 26  #: the most columns of names for which a description starts on the same line, in a page of 80 columns
_APART = 2  #: columns between names and description
_NARROW, _INDENT = 60, 4  #: below so many columns, each description starts on its own line, indented by these columns

#: The names of an option or a command, the value that it takes, and what it does.
Row = tuple[str, str, str]


def page(usage: str, paragraphs: Sequence[str], panels: Iterable[tuple[str, Sequence[Row]]], width: int, colours: bool) -> str:
    """The help of a command as lines of at most `width` columns."""
    name, frame, value, head, off = (NAME, FRAME, VALUE, HEAD, OFF) if colours else ("",) * 5
    begun, *more = _wrapped(usage, width - 9)
    lines = ["", f" {value}Usage:{off} {head}{begun}{off}", *(f"        {head}{line}{off}" for line in more)]
    for paragraph in paragraphs:
        lines += ["", *indented(paragraph, width)]
    lines.append("")
    for title, rows in panels:
        lines.append(f"{frame}╭─ {title} {'─' * (width - len(title) - 5)}╮{off}")
        room = _room(rows, width)
        for row in rows:
            for plain, painted in _row(row, room, width - 4, (name, value, off)):
                lines.append(f"{frame}│{off} {painted}{' ' * (width - 4 - len(plain))} {frame}│{off}")
        lines.append(f"{frame}╰{'─' * (width - 2)}╯{off}")
    return "\n".join(lines)


def examples(lines: Sequence[tuple[str, str]], width: int, colours: bool) -> str:
    """What each example is for, and its command line, which goes on behind a backslash if it is longer than a line."""
    frame, value, off = (FRAME, VALUE, OFF) if colours else ("",) * 3
    out = [f" {value}Examples:{off}" if len(lines) > 1 else f" {value}Example:{off}"]
    for does, line in lines:
        out += [f"   {frame}# {part}{off}" for part in _wrapped(does, width - 5)]
        first, *more = _wrapped(line, width - 7)
        out += [f"   {first}" + " \\" * bool(more)]
        out += [f"     {part}" + " \\" * (k < len(more)) for k, part in enumerate(more, 1)]
    return "\n".join(out)


def indented(text: str, width: int) -> list[str]:
    """A paragraph of a page."""
    return [f" {line}" for line in _wrapped(text, width - 2)]


def _room(rows: Sequence[Row], width: int) -> int:
    """[column] Where descriptions start: after the longest name that is not too long."""
    if width < _NARROW:
        return _INDENT
    most = _LIMIT * width // 80
    sizes = [len(f"{names} {value}".rstrip()) for names, value, _ in rows]
    return max((size for size in sizes if size <= most), default=4) + _APART


def _row(row: Row, room: int, width: int, colours: tuple[str, str, str]) -> list[tuple[str, str]]:
    """The lines of a row, each without and with colours."""
    names, value, does = row
    paint, paint_value, off = colours
    plain = f"{names} {value}".rstrip()
    painted = f"{paint}{names}{off}" + (f" {paint_value}{value}{off}" if value else "")
    lines = [(f"{' ' * room}{part}",) * 2 for part in _wrapped(does, width - room)]
    if len(plain) + _APART > room:
        if len(plain) <= width:
            return [(plain, painted), *lines]
        return [*((head, f"{paint}{head}{off}") for head in _wrapped(plain.strip(), width)), *lines]
    gap = " " * (room - len(plain))
    first = lines[0][0][room:]
    return [(f"{plain}{gap}{first}", f"{painted}{gap}{first}"), *lines[1:]]


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words. A word that is longer than a line is cut, after a comma if it has one."""
    lines = [""]
    for word in text.split(" "):
        while len(word) > width:
            cut = word.rfind(",", 0, width) + 1 or width
            lines = [line for line in lines if line] + [word[:cut], ""]
            word = word[cut:]
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
