"""The help of every command: what it says is drawn whole at each width, and without rich."""

from __future__ import annotations

import re
import shlex

import pytest
from typer.main import get_command

from kernbench.cli.app import app, every_command
from kernbench.cli.command_help import help_text
from kernbench.cli.command_tree import CommandNode, command_tree
from kernbench.cli.examples import EXAMPLES
from kernbench.cli.overview import COMMANDS, OPTIONS
from kernbench.cli.overview import help_text as overview
from kernbench.cli.panels import FRAME, HEAD, NAME, OFF, VALUE, examples, page
from kernbench.config import machine_names
from tests.cli.conftest import Kbsim
from tests.cli.test_cli_start import imported

NODES = {node.path: node for node in command_tree().walk() if node.path}
PAINT = (NAME, FRAME, VALUE, HEAD, OFF)


def drawn(path: str, width: int, colours: bool = False) -> str:
    """The help of a command, as its own `--help` draws it."""
    command, context = every_command(), get_command(app).make_context("kbsim", ["run"])
    for name in path.split():
        command = command.commands[name]  # type: ignore[assignment]
        context = type(context)(command, info_name=name, parent=context)
    return help_text(command, context, width, colours)


def words(text: str) -> str:
    """The words of a help, one blank between them; long words that were cut are put together again."""
    return " ".join(text.replace("\u2502", " ").split())


@pytest.mark.parametrize("width", [60, 80, 120, 161])
@pytest.mark.parametrize("path", NODES)
def test_everything_is_said_whole(path: str, width: int) -> None:
    text, node = drawn(path, width), NODES[path]
    assert all(len(line) <= width for line in text.split("\n"))
    assert all(len(line) == width for line in text.split("\n") if line[:1] in tuple("\u256d\u2502\u2570"))
    said = words(text)
    assert said.startswith(f"Usage: kbsim {path} [OPTIONS]")
    for one in (*node.options, *node.arguments):
        for name in one.names:
            assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said), name
        assert one.value.split("|")[0] in said and one.help in said
    for child in node.children:
        assert f"{child.path.split()[-1]} " in said
    assert node.help.split(". ")[0].rstrip(".") in said


@pytest.mark.parametrize("path", [path for path, node in NODES.items() if node.children])
def test_the_help_of_a_group_is_drawn_so(path: str, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = kbsim(*path.split(), "--help")
    assert (said.code, said.out.rstrip()) == (0, drawn(path, 80).rstrip())


@pytest.mark.parametrize("path", ["op", "trace why"])
def test_limits_defaults_and_what_is_required_are_said(path: str) -> None:
    said, node = words(drawn(path, 400)), NODES[path]
    numbers = [one for one in node.options if one.limits]
    assert numbers
    for one in (*node.options, *node.arguments):
        for note in ("required" if one.required else "", one.limits, f"default: {one.default}" if one.default else ""):
            assert f"{note}]" in said or f"{note}," in said


def test_panels_hold_the_options_that_name_them() -> None:
    panels = [one.panel for one in NODES["serve run"].options]
    titles = re.findall("\u256d\u2500 (.*?) \u2500", drawn("serve run", 80))
    assert len(set(panels)) > 3 and set(titles) == {one or "Options" for one in panels}


def test_a_long_name_stands_above_its_description() -> None:
    rows = [("-a, --all", "", "Take all."), ("    --a-name-that-is-longer-than-its-column", "N", "Count to N.")]
    text = page("kbsim x", ["It does."], [("Options", rows)], 60, False)
    assert text.split("\n")[5:] == [
        "\u256d\u2500 Options " + "\u2500" * 48 + "\u256e",
        "\u2502 -a, --all  Take all." + " " * 37 + "\u2502",
        "\u2502     --a-name-that-is-longer-than-its-column N" + " " * 12 + "\u2502",
        "\u2502            Count to N." + " " * 35 + "\u2502",
        "\u2570" + "\u2500" * 58 + "\u256f",
    ]


@pytest.mark.parametrize("path", ["run", "serve", "serve run", "trace why"])
def test_colours_change_no_text(path: str) -> None:
    painted = drawn(path, 80, True)
    for code in PAINT:
        assert code in painted
        painted = painted.replace(code, "")
    assert painted == drawn(path, 80)


def test_the_overview_says_what_the_commands_say() -> None:
    """It is written down, because reading it from the commands would import them all."""
    assert {name: child.help for name, child in _children(command_tree()).items()}.keys() == COMMANDS.keys()
    options = {one.names[0]: one.help for one in command_tree().options}
    assert options == OPTIONS
    said = words(overview(80, False))
    assert all(name in said and does in said for name, does in (*COMMANDS.items(), *OPTIONS.items()))


def _children(node: CommandNode) -> dict[str, CommandNode]:
    return {child.path: child for child in node.children}


def test_help_needs_no_rich() -> None:
    assert not {name for name in imported("run", "--help") if name.partition(".")[0] == "rich"}


@pytest.mark.parametrize("path", [path for path, node in NODES.items() if not node.children])
def test_each_command_has_an_example_that_it_accepts(path: str) -> None:
    assert EXAMPLES[path]
    for does, line in EXAMPLES[path]:
        command, context = every_command(), get_command(app).make_context("kbsim", ["run"])
        words = shlex.split(re.split(r"\s[>|;]", line)[0])
        assert words[: len(path.split())] == path.split()
        for name in path.split():
            command = command.commands[name]  # type: ignore[assignment]
        given = command.make_context(path, words[len(path.split()) :], parent=context).params
        config = given.get("config") or ()
        for name in (config,) if isinstance(config, str) else config:
            assert name in machine_names() or name.endswith(".yaml")
        assert f"# {does}" in drawn(path, 200) and f"kbsim {line}" in drawn(path, 200)


def test_examples_can_read_the_files_of_earlier_ones(kbsim: Kbsim) -> None:
    of_traces = [path for path in EXAMPLES if path.startswith("trace ") and path not in ("trace diff", "trace align")]
    for path in ("run", "step", *of_traces):
        for _, line in EXAMPLES[path]:
            done = kbsim(*shlex.split(line))
            assert done.code == 0, (line, done.err)


def test_a_long_example_goes_on_behind_a_backslash() -> None:
    text = examples([("two words", "kbsim run a_target --config=machine")], 30, False)
    assert text.split("\n") == [" Example:", "   # two words", "   kbsim run a_target \\", "     --config=machine"]
