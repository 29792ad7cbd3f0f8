"""The options of `kbsim llm`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Phases(StrEnum):
    """Which phases are run."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


ModelName = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME|FILE", help="A model's name, or a Hugging Face config.json.")
]
Phase = Annotated[Phases, typer.Option("--phase", help="What to run; decode begins behind the prompt.")]
Prompt = Annotated[int, typer.Option("--prompt", metavar="N", help="Tokens of the prompt.")]
Tokens = Annotated[int, typer.Option("--tokens", metavar="N", help="Tokens to decode, of each sequence.")]
Batch = Annotated[int, typer.Option("--batch", metavar="N", help="Sequences at a time.")]
Layers = Annotated[int | None, typer.Option("--layers", metavar="N", help="Only the first N layers.", show_default="all")]
WeightBits = Annotated[int | None, typer.Option("--w", metavar="BITS", help="Bits of weights.", show_default="4")]
ActivationBits = Annotated[int | None, typer.Option("--a", metavar="BITS", help="Bits of activations.", show_default="8")]
KvBits = Annotated[int | None, typer.Option("--kv", metavar="BITS", help="Bits of the KV cache.", show_default="4")]
Policy = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Bits by role, layer and head, in YAML.", show_default=False)
]
Page = Annotated[int, typer.Option("--page", metavar="N", help="Tokens of a page of the KV cache; 0: no pages.")]
Parallel = Annotated[int, typer.Option("--tp", metavar="N", help="PEs of a system that share the model.")]
class Reductions(StrEnum):
    """How PEs that share a model add up their parts."""

    DIRECT = "direct"
    RING = "ring"


Reduce = Annotated[Reductions, typer.Option("--reduce", help="How they add up: each to each, or round a ring.")]
Compare = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="WHAT=V,V,...",
        help="Run once for each value of w, a, kv, prompt, batch, page or tp, and show them side by side. May be repeated.",
        show_default=False,
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the comparison: .svg or .png.", show_default=False)
]
Emit = Annotated[
    Path | None,
    typer.Option("--emit", metavar="FILE", help="Write all of it as one program, and run nothing.", show_default=False),
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Run all of it as one program too, for its trace.", show_default=False),
]
LiveMap = Annotated[
    Path | None,
    typer.Option("--live-map", metavar="FILE", help="Draw a layer's scratchpad buffers as .svg.", show_default=False),
]
NoReuse = Annotated[bool, typer.Option("--no-reuse", help="Simulate every layer of every step: slower, the same result.")]
