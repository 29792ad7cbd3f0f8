"""One input of the fuzzer: files and the command that reads them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

#: Shell commands that make a file of each special kind; each is also what the fuzzer itself does.
SPECIAL = {
    "zeros": "ln -s /dev/zero {}",
    "noise": "ln -s /dev/urandom {}",
    "null": "ln -s /dev/null {}",
    "fifo": "mkfifo {}",
    "directory": "mkdir {}",
    "empty": ": > {}",
    "unreadable": ": > {} && chmod 000 {}",
    "dangling": "ln -s nowhere {}",
    "loop": "ln -s {} {}",
    "socket": "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' {}",
    "terabyte": "truncate -s 1T {}",
}


@dataclass(frozen=True, slots=True)
class Case:
    """Files by name, and the arguments of `kbsim` that read them in the folder where they lie.

    `call`: instead of `kbsim`, a function of its own that gets the arguments and returns an exit code.
    `special`: by name, the kinds (of `SPECIAL`) of files that hold no bytes.
    """

    arguments: tuple[str, ...]
    files: Mapping[str, bytes]
    special: Mapping[str, str] = field(default_factory=dict)
    call: Callable[[tuple[str, ...]], int] | None = None

    def write(self, folder: Path) -> None:
        """Put its files into an empty folder."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for name, kind in self.special.items():
            make_special(folder / name, kind)

    def command(self) -> str:
        """The line of a shell that repeats it in its folder."""
        made = [SPECIAL[kind].replace("{}", shlex.quote(name)) for name, kind in self.special.items()]
        name = "kbsim" if self.call is None else f"python -m {self.call.__module__}"
        return " && ".join([*made, shlex.join([name, *self.arguments])])


def make_special(path: Path, kind: str) -> None:
    """Make a file of a kind of `SPECIAL`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in ("zeros", "noise", "null"):
        path.symlink_to({"zeros": "/dev/zero", "noise": "/dev/urandom", "null": "/dev/null"}[kind])
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind in ("empty", "unreadable"):
        path.touch()
        if kind == "unreadable":
            path.chmod(0)
    elif kind in ("dangling", "loop"):
        path.symlink_to("nowhere" if kind == "dangling" else path.name)
    elif kind == "socket":
        import socket

        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:  # names of sockets are short: that of the folder may be too long
            os.chdir(path.parent)
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path.name)
        finally:
            os.fchdir(here)
            os.close(here)
    elif kind == "terabyte":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        raise ValueError(kind)


class Format(Protocol):
    """One format that is read: sound files, how they are changed, and what reads them."""

    name: str

    def sound(self) -> list[Case]:
        """Cases that nothing was done to: none of them is refused."""

    def mutated(self, rng: Random) -> Case:
        """One changed input, the same for the same `rng`."""

    def readers(self) -> list[tuple[Case, str]]:
        """For special files: each reader's sound case, and the name of the file that it reads."""
