"""The options of `kbsim ccl run`, and sizes as people write them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from kernbench.common.errors import InputError, Problem

Collective = Annotated[
    str, typer.Argument(metavar="COLLECTIVE", help="all_reduce, all_gather, ... (kbsim ccl list).", show_default=False)
]
Algo = Annotated[
    str | None, typer.Option("--algo", "-a", metavar="NAME", help="The algorithm.", show_default="the collective's first")
]
Ranks = Annotated[
    int | None, typer.Option("--ranks", "-n", min=1, metavar="N", help="How many PEs take part.", show_default="8")
]
GroupShape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="SxCxP",
        help="Instead of --ranks: SIPs, cubes of each and PEs of each of those, like 8x1x1.",
        show_default=False,
    ),
]
First = Annotated[str, typer.Option("--begin", "-b", metavar="SIZE", help="The first size: bytes, or 4K, 1M, 2G.")]
Last = Annotated[str | None, typer.Option("--end", "-e", metavar="SIZE", help="The last size.", show_default="the first")]
Factor = Annotated[int, typer.Option("--factor", "-f", min=1, metavar="N", help="Each size is so many times the one before.")]
DataType = Annotated[str, typer.Option("--dtype", "-d", metavar="TYPE", help="Element type: f32, f16, bf16, i32, ...")]
Machine = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="The machine: a preset's name, or a .yaml or .json file.",
        show_default="the smallest preset that has so many PEs",
    ),
]
Topo = Annotated[
    str | None,
    typer.Option(
        "--topo",
        metavar="KIND",
        help="ring, torus or mesh: how SIPs (of one SIP: ranks) are taken to be arranged.",
        show_default="as the machine is",
    ),
]
Slots = Annotated[int | None, typer.Option("--slots", min=1, metavar="N", help="Slots of each queue.", show_default="ccl.yaml")]
SlotBytes = Annotated[
    str | None, typer.Option("--slot-bytes", metavar="SIZE", help="Bytes of a slot.", show_default="ccl.yaml")
]
Tier = Annotated[
    str | None, typer.Option("--tier", metavar="TIER", help="Where slots lie: tcm, sram or hbm.", show_default="ccl.yaml")
]
Check = Annotated[bool, typer.Option("--check/--no-check", help="Compute the numbers too, and compare with the reference.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Of the random elements.")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw bandwidths and times over sizes: .svg or .png.", show_default=False),
]

_SIZE = re.compile(r"([1-9][0-9]{0,17})(?:([KMGTkmgt])(?:i?B)?|B)?")
_NAMES = {"half": "f16", "float": "f32", "bfloat16": "bf16", "int": "i32", "long": "i64", "char": "i8"}  # other programs' names


def size_of(option: str, text: str) -> int:
    """Bytes of `4K`, `4k` (as nccl-tests has it), `4KiB` or `4096`; InputError for another text."""
    match = _SIZE.fullmatch(text)
    size = 0 if match is None else int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[(match[2] or "").upper()]
    if not 1 <= size <= 1 << 40:
        rule = "it must be bytes, or a number with K, M, G or T (of 1024), at least 1 and at most 1T"
        raise InputError(Problem("kbsim ccl run", rule, option, text))
    return size


def dtype_of(text: str) -> str:
    """An element type that collectives have; InputError for another one, with ours where it has a name elsewhere."""
    from kernbench.ccl.collectives import CCL_DTYPES

    if text not in CCL_DTYPES:
        plain = text.lower().replace("float", "f").replace("uint", "u").replace("int", "i").replace("fp", "f")
        meant = _NAMES.get(text.lower(), plain)
        remedy = f"did you mean {meant}?" if meant in CCL_DTYPES else ""
        raise InputError(Problem("kbsim ccl run", f"it must be one of {', '.join(CCL_DTYPES)}", "--dtype", text, remedy))
    return text
