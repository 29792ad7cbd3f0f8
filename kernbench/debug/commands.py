"""The commands of the debugger: their effects, help and completion. The terminal program and `--do` have the same commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.spelling import nearest
from kernbench.debug import expression, views
from kernbench.debug.events import KINDS
from kernbench.debug.session import Session, Stop
from kernbench.debug.state import FIELDS

if TYPE_CHECKING:
    from rich.console import RenderableType

LONGEST = 2000  # characters of the longest line

Lines = "list[RenderableType]"


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    name: str
    takes: str  #: its arguments, as help shows them
    does: str
    run: Callable[[Session, str], list[RenderableType]]
    moves: bool = False  #: whether it moves to another cycle
    short: str = ""  #: another name


class QuitError(Exception):
    """The user ends the program."""


def _stopped(session: Session, stop: Stop) -> list[RenderableType]:
    return [views.head(session), Text(stop.reason, "" if stop.found else views.WAIT)]


def _number(text: str, default: int | None, what: str) -> int:
    if not text and default is not None:
        return default
    plain = text.replace(",", "").replace("_", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) < 19):
        raise InputError(Problem(what, "it must be an integer of at least 0", "number", text, f"help {what} says more"))
    return int(plain)


def _words(text: str, what: str, least: int, most: int) -> list[str]:
    words = text.split()
    if not least <= len(words) <= most:
        takes = next(one.takes for one in COMMANDS if one.name == what)
        raise InputError(Problem(what, f"it takes {takes or 'nothing'}", remedy=f"help {what} says more"))
    return words


def _run(session: Session, text: str) -> list[RenderableType]:
    _words(text, "run", 0, 0)
    return _stopped(session, session.run())


def _step(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.step(_number(text, 1, "step")))


def _back(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.back(_number(text, 1, "back")))


def _goto(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.goto(_number(text, None, "goto")))


def _start(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.start_of(_number(text, None, "start")))


def _end(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.end_of(_number(text, None, "end")) if text else session.end())


def _next(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.next(_words(text, "next", 1, 1)[0]))


def _prev(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.next(_words(text, "prev", 1, 1)[0], back=True))


def _line(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.line(*_words(text, "line", 1, 2)))


def _prevline(session: Session, text: str) -> list[RenderableType]:
    return _stopped(session, session.line(*_words(text, "prevline", 1, 2), back=True))


def _break(session: Session, text: str) -> list[RenderableType]:
    if not text:
        return views.watches(session)
    session.break_on(text)
    return [Text(f"breakpoint {len(session.breakpoints)}: {text}")]


def _delete(session: Session, text: str) -> list[RenderableType]:
    gone = session.delete(_number(text, None, "delete"))
    return [Text(f"no breakpoint any more: {gone.text}")]


def _watch(session: Session, text: str) -> list[RenderableType]:
    if text:
        session.watch(text)
    return views.watches(session)


def _unwatch(session: Session, text: str) -> list[RenderableType]:
    session.unwatch(_number(text, None, "unwatch"))
    return views.watches(session)


def _print(session: Session, text: str) -> list[RenderableType]:
    return [Text(f"{text} = {expression.shown(session.value(text))}")]


def _view(name: str) -> Callable[[Session, str], list[RenderableType]]:
    def run(session: Session, text: str) -> list[RenderableType]:
        _words(text, name, 0, 0)
        return views.VIEWS[name][1](session)

    return run


def _tensors(session: Session, text: str) -> list[RenderableType]:
    return views.tensors(session, text)


def _here(session: Session, text: str) -> list[RenderableType]:
    return views.happened(session)


def _state(session: Session, text: str) -> list[RenderableType]:
    found: list[RenderableType] = [views.head(session)]
    for name in ("engines", "banks", "source", "waits"):
        title, draw = views.VIEWS[name]
        found += [Text(""), Text(title, "bold"), *draw(session)]
    return found


def _diff(session: Session, text: str) -> list[RenderableType]:
    config, settings = None, []
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            rule = "it takes config=NAME and PATH=VALUE: the same target on another machine, or with other values"
            raise InputError(Problem("diff", rule, "word", word))
        if name == "config":
            config = value
        else:
            settings.append(word)
    other = Session(session.subject.with_machine(config, settings))
    found = session.diff(other)
    if found is None:
        return [Text("the runs never differ")]
    return [views.head(session), *(Text(line) for line in found.lines())]


def _save(session: Session, text: str) -> list[RenderableType]:
    if not text:
        raise InputError(Problem("save", "this command needs a file name", remedy="save session.kbdebug"))
    session.save(text)
    return [Text(f"saved {text}: kbsim debug --session {text} opens it")]


def _names(session: Session, text: str) -> list[RenderableType]:
    found = [one for one in names(session) if text in one]
    return [Text(", ".join(found[:60]) + (f", {len(found) - 60} more" if len(found) > 60 else ""))]


def _help(session: Session, text: str) -> list[RenderableType]:
    if text == "names":
        return [Text(f"{kind}: {', '.join(fields)}") for kind, fields in FIELDS.items()]
    if text == "events":
        return [Text(f"{kind}: {does}") for kind, does in KINDS.items()]
    chosen = [_find(text)] if text else COMMANDS
    made = views._grid("l", "w")
    for one in chosen:
        title = f"{one.name} {one.takes}".strip() + (f" ({one.short})" if one.short else "")
        made.add_row(Text(title, "bold"), one.does)
    more = "help names lists the fields of expressions, help events the events that next takes"
    return [made] if text else [made, Text(more, views.DIM)]


def _quit(session: Session, text: str) -> list[RenderableType]:
    raise QuitError


COMMANDS: list[Command] = [
    Command("run", "", "Run to the next breakpoint, or to the end.", _run, True, "r"),
    Command("step", "[N]", "Run N cycles, or one.", _step, True, "s"),
    Command("back", "[N]", "Go back N cycles, or one.", _back, True, "b"),
    Command("goto", "CYCLE", "Go to a cycle, forward or back.", _goto, True, "g"),
    Command("start", "ID", "Go to the start of the job of an entry or command.", _start, True),
    Command("end", "[ID]", "Go to the end of a job, or to the end of the run.", _end, True),
    Command("next", "EVENT", f"Go to the next event: {', '.join(KINDS)}.", _next, True, "n"),
    Command("prev", "EVENT", "Go to the event of this kind before.", _prev, True, "p"),
    Command("line", "FILE:N [PE]", "Go to the next command that a kernel issues from a source line.", _line, True),
    Command("prevline", "FILE:N [PE]", "Go to the one before.", _prevline, True),
    Command(
        "break", "[COND]", "Stop run where an expression becomes true, or at conflict, denied, stall, message, start ID, "
        "end ID, line FILE:N [PE].", _break,
    ),
    Command("delete", "N", "Remove breakpoint N.", _delete),
    Command("watch", "[EXPR]", "Show the value of an expression at every stop.", _watch, False, "w"),
    Command("unwatch", "N", "Remove watch expression N.", _unwatch),
    Command("print", "EXPR", "Show the value of an expression once.", _print),
    Command("state", "", "Show engines, banks, source and waits.", _state),
    Command("engines", "", "Show what every engine does.", _view("engines")),
    Command("queues", "", "Show jobs in queues, and queues between PEs with their credits.", _view("queues")),
    Command("banks", "", "Show banks with requests and denials, and who shares channels and links.", _view("banks")),
    Command("source", "", "Show where kernels stand, or which entries run and come next.", _view("source")),
    Command("tensors", "[NAME]", "Show the tensors of a bench with their values by now.", _tensors),
    Command("waits", "", "Show who waits for whom.", _view("waits")),
    Command("here", "", "Show what happened in the last cycle.", _here),
    Command("names", "[TEXT]", "List the names that expressions can use.", _names),
    Command(
        "diff", "[config=NAME] [PATH=VALUE ...]", "Run the same target on another machine, and go to the first cycle in which "
        "the two differ.", _diff, True,
    ),
    Command("save", "FILE", "Save the session: target, machine, cycle, breakpoints and watch expressions.", _save),
    Command("help", "[COMMAND]", "Show all commands, or one.", _help, False, "h"),
    Command("quit", "", "End the program.", _quit, False, "q"),
]  # fmt: skip


#: Commands of gdb and pdb, and the corresponding commands of kernbench.
SYNONYMS = {"continue": "run", "c": "run", "cont": "run", "finish": "end", "exit": "quit", "info": "state", "p": "print"}


def _find(name: str) -> Command:
    for one in COMMANDS:
        if name in (one.name, one.short):
            return one
    near = SYNONYMS.get(name) or nearest(name, [one.name for one in COMMANDS])
    remedy = f"did you mean {near}?" if near else "the command help lists all commands"
    raise InputError(Problem("command", f"the debugger has no command {shown(name)}", remedy=remedy))


def moves(line: str) -> bool:
    """Whether a line moves to another cycle: its output then begins with the new status and cycle."""
    name = line.strip().partition(" ")[0]
    return any(one.moves for one in COMMANDS if name in (one.name, one.short))


def execute(session: Session, line: str) -> list[RenderableType]:
    """Execute a line, and return its output. InputError for a line that is not a command; QuitError for `quit`."""
    if len(line) > LONGEST:
        raise InputError(Problem("command", f"a line has at most {LONGEST:,} characters"))
    name, _, rest = line.strip().partition(" ")
    if not name:
        return []
    return _find(name).run(session, rest.strip())


def names(session: Session) -> list[str]:
    """Names with which expressions can begin."""
    state = session.state
    tensors = [f"tensor.{one}" for one in state.tensor_names]
    return ["cycle", "status", *state.objects, *tensors]


def completions(session: Session, line: str) -> list[str]:
    """Whole lines to which this line can be completed: commands, kinds of events, names and their fields."""
    name, space, rest = line.partition(" ")
    if not space:
        return [one.name for one in COMMANDS if one.name.startswith(name)]
    return list(dict.fromkeys(f"{name} {one}" for one in _arguments(session, name, rest)))


def _arguments(session: Session, name: str, rest: str) -> Iterator[str]:
    if name in ("next", "n", "prev", "p"):
        yield from (kind for kind in KINDS if kind.startswith(rest))
    elif name in ("help", "h"):
        yield from (one.name for one in COMMANDS if one.name.startswith(rest))
    elif name == "tensors":
        yield from (one for one in session.state.tensor_names if one.startswith(rest))
    elif name in ("watch", "w", "break", "print"):
        before, _, last = rest.rpartition(" ")
        lead = f"{before} " if before else ""
        yield from (f"{lead}{one}" for one in _expressions(session, last))


def _expressions(session: Session, last: str) -> Sequence[str]:
    """The names, or fields of a name, to which the last word of an expression can be completed."""
    found = [one for one in names(session) if one.startswith(last) or f".{last}" in one]
    owner, dot, field = last.rpartition(".")
    kind = session.state.objects.get(session.state.find(owner) or "") if dot else None
    fields = FIELDS["bank" if kind == "spm" else kind] if kind is not None else ()
    return [*(f"{owner}.{one}" for one in fields if one.startswith(field)), *found[:20]]
