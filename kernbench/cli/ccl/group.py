"""The machine and the group of ranks of the commands of `kbsim ccl`: their options and checks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli.target import note_machine
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.ccl.contract import Shape
    from kernbench.ccl.group import Group
    from kernbench.ccl.registry import Entry
    from kernbench.config import SystemConfig

RANKS = 8  # the default number
PRESETS = ("single_cube", "two_sips", "sip_4x4", "pod_8sip")  # from the smallest to the largest
MachineOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="The machine: a name that kbsim config list prints, or a .yaml or .json file.",
        show_default="the smallest preset that has so many PEs",
    ),
]
Topo = Annotated[
    str | None,
    typer.Option(
        "--topo",
        metavar="KIND",
        help="How the SIPs are connected (or the ranks, if the machine has one SIP): ring, torus or mesh.",
        show_default="as the machine is",
    ),
]
GroupShape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="SxCxP",
        help="Instead of --ranks: the numbers of SIPs, of cubes per SIP and of PEs per cube, such as 8x1x1.",
        show_default=False,
    ),
]


def chosen_group(
    command: str,
    entries: Sequence[Entry],
    config: str | None,
    overrides: list[str],
    allow_code: Sequence[str],
    ranks: int | None,
    shape: str | None,
    topo: str | None,
    *,
    quiet: bool = False,
) -> tuple[SystemConfig, Group]:
    """The machine, and its ranks in an arrangement that all algorithms of `entries` allow.

    InputError if the options of `command` contradict each other, or if an algorithm does not fit the machine.
    """
    from kernbench.ccl.group import group_of, shape_for
    from kernbench.config import load_config

    given = None if shape is None else shape_of(command, shape)
    if given is not None and ranks is not None and ranks != prod(given):
        rule = f"--shape {shape} has {prod(given)} ranks: give one of the two, or the same number"
        raise InputError(Problem(command, rule, "--ranks", ranks))
    names = PRESETS if config is None else (config,)
    for name in names:
        try:
            machine = load_config(name, overrides, allow_code=allow_code)  # a preset may be too small for a broken link
            group = group_of(machine, given or shape_for(machine, ranks or RANKS), topo)
            break
        except InputError:
            if name == names[-1]:
                raise
    for entry in entries:
        if group.kind_name not in entry.topologies:
            rule = f"{entry.full_name} is for {', '.join(entry.topologies)}"
            raise InputError(Problem(command, rule, "--topo", group.kind_name))
        if rule := entry.unfit(machine, group):
            raise InputError(Problem(command, rule, "--algo", entry.name))
        if entry.ranks not in (0, group.size):
            raise InputError(Problem(entry.where, f"it is for {entry.ranks} ranks, and the group has {group.size}"))
    note_machine(machine, quiet=quiet)
    return machine, group


def shape_of(command: str, text: str) -> Shape:
    """The numbers of SIPs, cubes and PEs in a text like `8x1x1`. InputError for `command` if the text has another form."""
    from kernbench.ccl.contract import Shape

    parts = text.split("x")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        raise InputError(Problem(command, "it must be three numbers like 8x1x1", "--shape", text))
    return Shape(*map(int, parts))
