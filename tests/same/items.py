"""What an item of the manifest is: commands, and which of their bytes count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """Commands of `kbsim` that are run one after the other in the folder of inputs."""

    name: str
    commands: tuple[Command, ...]
    output: str = ""  #: the file whose bytes count; empty: stdout of the last command
    folder: str = "."  #: in the folder of inputs
    refused: bool = False  #: whether it is there to be refused, with exit code 2

    @property
    def steps(self) -> bool:
        """Whether it is also run without skipping cycles: one run, of which nothing is read, and no check of kernels."""
        first, *more = self.commands
        return not more and first[0] == "run" and "--check" not in first

    def stepping(self) -> Item:
        """The same with every cycle stepped."""
        return replace(self, commands=((*self.commands[0], "--no-skip"),))


class Found(NamedTuple):
    """What an item left behind, a line of the manifest."""

    sha256: str  #: the first 16 digits
    codes: str  #: exit codes of its commands
    size: int  #: [B]
    cycles: int | None  #: of the result, where it has that field


def item(name: str, *commands: str | Command, output: str = "", folder: str = ".", refused: bool = False) -> Item:
    """An item of commands that are given as text or as words."""
    words = tuple(tuple(command.split()) if isinstance(command, str) else command for command in commands)
    return Item(name, words, output, folder, refused)
