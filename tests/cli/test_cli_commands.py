"""Commands are imported when they are called, and help says of them what they say of themselves."""

from __future__ import annotations

import pytest

from kernbench.cli.app import COMMANDS, every_command
from kernbench.cli.main import exit_code


def test_help_says_what_the_commands_say() -> None:
    said = {name: " ".join(str(command.help).split("\n\n")[0].split()) for name, command in every_command().commands.items()}
    assert said == COMMANDS


def test_help_of_a_command_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["run", "--help"]) == exit_code(["trace", "why", "-h"]) == 0
    text = capsys.readouterr().out
    assert "kbsim run [OPTIONS]" in text and "--no-skip" in text and "kbsim trace why" in text


def test_a_command_that_is_nearly_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["trase"]) == 2
    assert capsys.readouterr().err == (
        "Usage: kbsim [OPTIONS] COMMAND [ARGS]...\n"
        "error: kbsim: there is no command \"trase\"; did you mean kbsim trace?\n"
    )


def test_a_missing_choice_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["topology", "draw", "-o", "t.svg"]) == 2
    assert capsys.readouterr().err.endswith(
        "error: kbsim topology draw: --view is missing: one of system, sip, cube, pe; see kbsim topology draw --help\n"
    )


@pytest.mark.parametrize("extra", [[""], [" "], ["1 2"], ["x", ""]])
@pytest.mark.parametrize("command", [["llm"], ["run", "gemm"], ["config", "list"], ["ccl", "run", "all_reduce"]])
def test_an_extra_argument_that_is_blank_or_quoted_is_a_usage_error(
    command: list[str], extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code([*command, *extra]) == 2
    assert 'unexpected argument "' in capsys.readouterr().err


def test_several_values_of_an_option_are_compared_whatever_they_equal(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["llm", "--batch", "8", "8"]) == 2
    assert capsys.readouterr().err.endswith('unexpected argument "8"; to compare runs: --compare batch=8,8\n')
