"""The options of `kbsim llm`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import (
    max_cycles_of,
)
from kernbench.cli.values import count_of
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.config import NpuConfig, SystemConfig
    from kernbench.workloads.llm.model import Model
    from kernbench.workloads.llm.reductions import Reduction
    from kernbench.workloads.llm.steps import Job, LlmPrograms
    from kernbench.workloads.models.precision import Precision
    from kernbench.workloads.parallel.programs import ParallelPrograms


COMPARED = ("w", "a", "kv", "prompt", "batch", "page", "tp", "cp", "pp", "dp", "micro_batches")


class Phases(StrEnum):
    """Which phases are run."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


ModelName = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME|FILE", help="A model's name, or a Hugging Face config.json.")
]
Phase = Annotated[Phases, typer.Option("--phase", help="Phases to run. Decode starts after the prompt.")]
Prompt = Annotated[int, typer.Option("--prompt", metavar="N", parser=count_of, help="Length of the prompt in tokens: 512, 8k.")]
Tokens = Annotated[int, typer.Option("--tokens", metavar="N", parser=count_of, help="Tokens to decode per sequence.")]
Source = Annotated[
    int,
    typer.Option(
        "--source",
        metavar="N",
        help="Number of tokens that an encoder reads for each sequence. With 0, a speech model reads 30 s of audio, and any "
        "other model reads as many tokens as --prompt gives.",
    ),
]
Batch = Annotated[int, typer.Option("--batch", metavar="N", help="Number of sequences in a batch.")]
Layers = Annotated[int | None, typer.Option("--layers", metavar="N", help="Run only the first N layers.", show_default="all")]
WeightBits = Annotated[int | None, typer.Option("--w", metavar="BITS", help="Bits of weights.", show_default="4")]
ActivationBits = Annotated[int | None, typer.Option("--a", metavar="BITS", help="Bits of activations.", show_default="8")]
KvBits = Annotated[int | None, typer.Option("--kv", metavar="BITS", help="Bits of the KV cache.", show_default="4")]
Policy = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="YAML file that sets the number of bits of tensors, by role, layer and head.",
        show_default=False,
    ),
]
Page = Annotated[
    int,
    typer.Option(
        "--page", metavar="N", help="Number of tokens in a page of the KV cache. The value 0 means a cache without pages."
    ),
]
Parallel = Annotated[
    int, typer.Option("--tp", metavar="N", help="Tensor parallelism: the number of PEs that share each layer of the model.")
]


class RankKinds(StrEnum):
    """The meaning of one rank of --tp."""

    PE = "pe"
    CUBE = "cube"
    SIP = "sip"


RankKind = Annotated[
    RankKinds,
    typer.Option(
        "--rank",
        help="Meaning of one rank in --tp: a PE, a cube or a SIP of a system. "
        "A cube or a SIP divides its share of each layer over all of its PEs.",
    ),
]
Stages = Annotated[
    int,
    typer.Option(
        "--pp", metavar="N", help="Number of pipeline stages. Each pipeline stage runs a part of the layers on --tp PEs."
    ),
]
Micro = Annotated[
    int,
    typer.Option(
        "--micro-batches",
        metavar="N",
        help="Number of parts (micro-batches) into which the batch is cut. "
        "Each pipeline stage works on one micro-batch at a time. With 0, the "
        "number of micro-batches equals the number of pipeline stages.",
    ),
]
Replicas = Annotated[int, typer.Option("--dp", metavar="N", help="Number of copies of the model. The copies share the batch.")]
Ranks = Annotated[
    int,
    typer.Option(
        "--cp",
        metavar="N",
        help="Context parallelism: the number of ranks. Each rank holds a "
        "part of the tokens of each sequence, and the KV cache of these tokens. Each rank consists of --tp PEs and holds all "
        "weights.",
    ),
]
OwnRows = Annotated[
    bool,
    typer.Option(
        "--sp",
        help="Sequence parallelism: between the matrix products of a layer, each of the "
        "--tp PEs keeps only some rows of the activations. With --sp, a reduce-scatter and an "
        "all-gather replace each all-reduce.",
    ),
]


class Searches(StrEnum):
    """How a layout is found."""

    AUTO = "auto"


Search = Annotated[
    Searches | None,
    typer.Option("--parallel", help="Run all layouts that fit the machine, and report which layout is the fastest and why. "
        "A layout is a choice of values for --tp, --cp, --pp, --dp and --sp.",
                 show_default=False),
]  # fmt: skip


class Reductions(StrEnum):
    """How PEs that share a model reduce partial sums."""

    DIRECT = "direct"
    RING = "ring"
    TORUS = "torus"
    TREE = "tree"
    RECURSIVE_DOUBLING = "recursive_doubling"
    AUTO = "auto"


Reduce = Annotated[
    Reductions,
    typer.Option(
        "--reduce",
        metavar="ALGO",
        help="Algorithm of the all-reduces between the --tp PEs: direct, ring, torus, tree, recursive_doubling, or auto (the "
        "fastest for each size).",
    ),
]
Experts = Annotated[
    bool,
    typer.Option(
        "--ep",
        help="Expert parallelism: each of the --tp PEs holds some whole experts, "
        "instead of a part of every expert. With --dp, the experts are divided over the PEs of all copies of the model.",
    ),
]
Prefetch = Annotated[
    bool,
    typer.Option(
        "--prefetch-experts",
        help="Load the weights of all experts without waiting for the "
        "router. By default, the weights of an expert are loaded after the router has chosen the expert.",
    ),
]
SearchDivisions = Annotated[
    bool,
    typer.Option(
        "--search-divisions",
        help="In prefills over several PEs (--tp), search for the fastest division of each layer "
        "by simulation. With the option --plan, the output lists all divisions that were compared.",
    ),
]
Predict = Annotated[
    bool,
    typer.Option(
        "--mtp",
        help="Multi-token prediction: in each step, also run the blocks of the model that predict more than one token ahead.",
    ),
]
Routes = Annotated[
    str,
    typer.Option(
        "--routing",
        metavar="even|uniform|zipf:S|FILE",
        help="How tokens choose experts. In a routing file, the key `shares` lists the share of the "
        "tokens that each expert gets.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed for the random routing of tokens to experts.")]
Compare = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="WHAT=V,V,...",
        help=f"Run once for each value V, and compare the runs. WHAT is one of {', '.join(COMPARED)}. May be repeated.",
        show_default=False,
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the comparison as .svg or .png.", show_default=False)
]
Emit = Annotated[
    Path | None,
    typer.Option(
        "--emit", metavar="FILE", help="Write the run as one program file, without running the program.", show_default=False
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Run the whole model once more as one program, and write the trace of this run.",
        show_default=False,
    ),
]
LiveMap = Annotated[
    Path | None,
    typer.Option(
        "--live-map", metavar="FILE", help="Draw the scratchpad buffers of a layer, as an .svg file.", show_default=False
    ),
]
ShowPlan = Annotated[
    bool,
    typer.Option(
        "--plan",
        help="Show the plans that the planner compared for a layer, and the reason for its choice. The model is not run.",
    ),
]
HostProfile = Annotated[
    str | None,
    typer.Option(
        "--runtime",
        metavar="NAME|FILE",
        show_default=False,
        help="For a chip or a board of chips: run "
        "the kernels of this runtime profile, and add the time of the host software. Without --runtime, kbsim plans the "
        "layers as for an NPU.",
    ),
]
NoReuse = Annotated[
    bool,
    typer.Option(
        "--no-reuse",
        help="Simulate every layer of every step again, instead of reusing the result of an equal layer. Slower, same result.",
    ),
]


@dataclass(frozen=True)
class LlmOptions:
    """The options of a run."""

    model: str
    config: str
    overrides: tuple[str, ...]
    allow_code: tuple[str, ...]
    phase: str
    prompt: int
    tokens: int
    batch: int
    layers: int | None
    w: int | None = None
    a: int | None = None
    kv: int | None = None
    policy: Path | None = None
    page: int = 0
    tp: int = 1
    reduction: Reduction = "direct"
    ep: bool = False
    prefetch_experts: bool = False
    search_divisions: bool = False
    mtp: bool = False
    routing: str = "even"
    seed: int = 0
    pp: int = 1
    dp: int = 1
    micro_batches: int = 0
    source: int = 0
    cp: int = 1
    sp: bool = False
    rank: str = "pe"

    def with_bits(
        self, w: int | None, a: int | None, kv: int | None, policy: Path | None, page: int, tp: int, reduction: Reduction
    ) -> LlmOptions:
        """The same with these."""
        return replace(self, w=w, a=a, kv=kv, policy=policy, page=page, tp=tp, reduction=reduction)

    def programs(self) -> LlmPrograms | ParallelPrograms:
        """Lower everything to a plan. InputError if something does not fit."""
        from kernbench.workloads.parallel.layout import Layout, layout_in_ranks
        from kernbench.workloads.parallel.run import job_programs

        model, precision, machine, job, limit = self.parts()
        layout = Layout(self.tp, self.pp, self.dp, self.micro_batches, self.cp, self.sp)
        layout = layout_in_ranks(layout, self.rank, machine)
        return job_programs(model, precision, machine, job, layout, max_cycles=limit)

    def parts(self) -> tuple[Model, Precision, NpuConfig | SystemConfig, Job, int | None]:
        """The model, its bits, the machine, the job and the limit. InputError if something is wrong with one of them."""
        from kernbench.config import load_config
        from kernbench.workloads.llm.steps import PHASES, Job
        from kernbench.workloads.models.files import load_model
        from kernbench.workloads.models.precision import load_precision, uniform_precision
        from kernbench.workloads.routing import routing_of

        bits = {"w": self.w, "a": self.a, "kv": self.kv}
        model = load_model(self.model)
        stated = model.stated
        precision = uniform_precision(stated, **bits) if self.policy is None else load_precision(self.policy, stated, **bits)
        phases = PHASES if self.phase == "both" else tuple(phase for phase in PHASES if phase == self.phase)
        job = Job(
            prompt=self.prompt,
            tokens=self.tokens,
            source=self.source,
            batch=self.batch,
            layers=self.layers,
            phases=phases,
            page_tokens=self.page,
            shards=self.tp,
            reduction=self.reduction,
            routing=routing_of(self.routing, self.seed),
            expert_parallel=self.ep,
            prefetch_experts=self.prefetch_experts,
            search_divisions=self.search_divisions,
            predicting=self.mtp,
        )
        machine = load_config(self.config, list(self.overrides), allow_code=self.allow_code)
        return model, precision, machine, job, max_cycles_of(self.overrides, machine)


def print_notes(options: LlmOptions, quiet: bool) -> None:
    """Print which keys of the model's file are not used, and which of its bits an option replaces."""
    from kernbench.workloads.models.files import load_model

    if quiet:
        return
    model = load_model(options.model)
    for note in model.notes:
        output.note(f"warning: {note}")
    for name in ("w", "a", "kv"):
        given, stated = getattr(options, name), getattr(model.stated, name)
        if given is not None and stated is not None and given != stated:
            output.note(f"--{name} {given} is used instead of the {stated} bits in the file of {model.name}")


def refused(rule: str, option: str, path: Path, remedy: str = "") -> InputError:
    return InputError(Problem("kbsim llm", rule, option, str(path), remedy))
