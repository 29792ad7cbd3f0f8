"""The debugger in a terminal, made with Textual: panes with the views, a command line, and keys."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.console import Group
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.geometry import Size
from textual.suggester import Suggester
from textual.widgets import Footer, Input, Static

from kernbench.common.errors import InputError
from kernbench.debug import views
from kernbench.debug.commands import QuitError, completions, execute, moves
from kernbench.debug.session import Session

WIDE = 120  # [column] width from which there are two columns of panes
TALL = 34  # [row] a narrow terminal with fewer rows shows three panes, and the keys 1 to 6 show each pane alone
FIRST = ("engines", "source", "waits")  # the panes of a narrow terminal


class Pane(VerticalScroll, can_focus=True):
    """One view of the session."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(id=name, classes="pane")
        self.view = name
        self.border_title = f"{number} {views.VIEWS[name][0]}"

    def compose(self) -> ComposeResult:
        yield Static(id=f"{self.view}-text")

    def show(self, session: Session) -> None:
        """Draw the view again."""
        self.query_one(Static).update(Group(*views.VIEWS[self.view][1](session)))


class Completing(Suggester):
    """Suggests the rest of a command."""

    def __init__(self, session: Session) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._session = session

    async def get_suggestion(self, value: str) -> str | None:
        found = completions(self._session, value) if value.strip() else []
        return next((one for one in found if one.startswith(value) and one != value), None)


class CommandLine(Input):
    """The command line: Tab and Right complete, Up and Down go through earlier lines, and Escape leaves the line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete", show=False, priority=True),
        Binding("up", "earlier(-1)", "Earlier", show=False),
        Binding("down", "earlier(1)", "Later", show=False),
        Binding("escape", "leave", "Panes", show=False),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(placeholder="a command; help lists them, Tab completes", suggester=Completing(session), id="line")
        self._session = session
        self._lines: list[str] = []
        self._at = 0

    def keep(self, line: str) -> None:
        """Store a line that was executed."""
        self._lines.append(line)
        self._at = len(self._lines)

    def action_complete(self) -> None:
        """Insert the common beginning of all completions; if it adds nothing, list the completions."""
        found = completions(self._session, self.value)
        if not found:
            return
        same = _common(found)
        if len(same) > len(self.value):
            self.value = same + (" " if len(found) == 1 and " " not in same else "")
            self.cursor_position = len(self.value)
        elif isinstance(self.app, DebugApp):
            self.app.answer([Text(", ".join(one.rpartition(" ")[2] for one in found[:40]))])

    def action_earlier(self, by: int) -> None:
        """Show the earlier or later line in the history."""
        self._at = max(0, min(len(self._lines), self._at + by))
        self.value = self._lines[self._at] if self._at < len(self._lines) else ""
        self.cursor_position = len(self.value)

    def action_leave(self) -> None:
        """Move the focus to the panes, where single keys are commands."""
        self.screen.query_one("#engines").focus()


def _common(lines: list[str]) -> str:
    """The longest common beginning of all lines."""
    first, last = min(lines), max(lines)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


class DebugApp(App[None]):
    """The terminal program. It has no function that commands of a script do not have."""

    TITLE = "kbsim debug"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; background: ansi_default; color: ansi_default; }
    #head { height: 1; padding: 0 1; background: ansi_default; }
    #panes { layout: grid; grid-size: 2 3; grid-rows: 2fr 2fr 1fr; height: 1fr; }
    .pane { border: round ansi_bright_black; border-title-color: ansi_default; border-title-style: bold; padding: 0 1;
            height: 1fr; background: ansi_default; scrollbar-size-vertical: 1; }
    .pane:focus { border: round ansi_cyan; }
    #panes.narrow { layout: vertical; }
    #panes.narrow #engines { height: 2fr; }
    .hidden { display: none; }
    #panes.alone { layout: vertical; }
    #answer { height: auto; max-height: 8; padding: 0 1; background: ansi_default; }
    #line { height: 1; border: none; padding: 0 1; background: ansi_default; }
    Footer { background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "do('step')", "Step"),
        Binding("b", "do('back')", "Back"),
        Binding("r", "do('run')", "Run"),
        Binding("n", "do('next conflict')", "Conflict"),
        Binding("e", "do('next end')", "End"),
        Binding("m", "do('next message')", "Message"),
        Binding("colon,slash", "line", "Command", key_display=":"),
        Binding("question_mark", "do('help')", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("w", "do('next stall')", "Stall", show=False),
        Binding("S", "do('step 10')", "10 steps", show=False),
        Binding("B", "do('back 10')", "10 back", show=False),
        Binding("N", "do('prev conflict')", "Conflict before", show=False),
        Binding("E", "do('prev end')", "Job end before", show=False),
        *(Binding(str(k), f"alone('{name}')", name, show=False) for k, name in enumerate(views.VIEWS, 1)),
        Binding("0,escape", "alone('')", "All panes", show=False),
    ]

    def __init__(self, session: Session, **how: Any) -> None:
        super().__init__(ansi_color=True, **how)
        self.session = session
        self.alone = ""  #: the view that is shown alone; empty: all views
        self.refused = ""  #: why the last command was refused

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Container(id="panes"):
            for number, name in enumerate(views.VIEWS, 1):
                yield Pane(name, number)
        yield Static(id="answer")
        yield CommandLine(self.session)
        yield Footer()

    def on_mount(self) -> None:
        """Begin with the focus on the panes, so that keys are commands."""
        self.answer([Text("s step, b back, : a command, ? help, 1 to 6 one pane alone, 0 all", views.DIM)])
        self._arrange(self.size)
        self._show()
        self.query_one("#engines").focus()

    def on_resize(self, event: events.Resize) -> None:
        """Handle another number of columns."""
        self._arrange(event.size)

    def _arrange(self, size: Size) -> None:
        """Set the visible panes, and the number of columns."""
        narrow = size.width < WIDE
        few = narrow and size.height < TALL
        panes = self.query_one("#panes")
        panes.set_class(narrow and not self.alone, "narrow")
        panes.set_class(bool(self.alone), "alone")
        for pane in self.query(Pane):
            there = pane.view == self.alone if self.alone else (not few or pane.view in FIRST)
            pane.set_class(not there, "hidden")

    def _show(self) -> None:
        self.query_one("#head", Static).update(views.head(self.session))
        for pane in self.query(Pane):
            pane.show(self.session)

    def answer(self, lines: list[Any]) -> None:
        """Show the answer of a command above the command line."""
        self.query_one("#answer", Static).update(Group(*lines))

    def action_line(self) -> None:
        """Move the focus to the command line."""
        self.query_one(CommandLine).focus()

    def action_alone(self, name: str) -> None:
        """Show one pane, or all."""
        self.alone = "" if name == self.alone else name
        self._arrange(self.size)
        self.query_one(f"#{self.alone or 'engines'}").focus()

    def action_do(self, line: str) -> None:
        """Execute a command."""
        self.refused = ""
        try:
            lines = execute(self.session, line)[moves(line) :]  # the first line is shown at the top
        except QuitError:
            self.exit()
            return
        except InputError as error:
            self.refused = str(error)
            lines = [Text.assemble(("error: ", views.FAIL), str(error))]
        self._show()
        self.answer(lines)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Execute a typed line."""
        line = event.value.strip()
        event.input.value = ""
        if line:
            self.query_one(CommandLine).keep(line)
            self.action_do(line)
