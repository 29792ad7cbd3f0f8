"""Runtime profiles `kernbench/runtime/1`: the costs of the software that starts kernels, and the way in which its times were
measured.

The rules are in docs/model/host.md. A profile describes software, so it applies to every chip. The time that the chip itself
takes to start a kernel is a value of the chip.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.package_files import package_folder
from kernbench.common.spelling import meant
from kernbench.config.document import MACHINE_BYTES, Document, read_document
from kernbench.config.fields import Count, Energy, Flag, Natural, Rate
from kernbench.config.file_kinds import check_kind
from kernbench.config.section import Field, Section, ValidationError

#: Classes of operations in tables. `moe`: the experts of a layer, with the kernels that choose and sort them.
CLASSES = ("matmul", "attention", "moe", "norm", "elementwise", "gather", "collective", "other")


class OpCost(Section):
    """How this software carries out one operation."""

    kernels: Count = Field(default=1, description="number of kernels of the operation")
    traffic: Rate = Field(
        default=Fraction(1), description="bytes that the kernels move, divided by the least bytes that the operation needs"
    )
    resident: Rate | None = Field(
        default=None,
        description="distinct bytes, divided by the least bytes that the operation needs: 0.5 for an operation in "
        "place; default: 1",
    )
    start_ns: Energy = Field(
        default=Fraction(0), description="[ns] start time of all kernels together, in addition to the chip's start of a kernel"
    )
    chain: Rate | None = Field(
        default=None,
        description="dependent DRAM loads on a GPU: in a vector kernel each time that it reads a row, in a product before it "
        "starts; default: 1 if the bytes miss the cache",
    )
    thread_bytes: Rate | None = Field(
        default=None,
        description="[byte] bytes that a thread of a vector kernel has in flight; default: as many as the rate of "
        "the cache allows",
    )
    turn_elements: Natural = Field(
        default=0,
        description="elements of a row that a block of threads of a GPU reads at a time, with the latencies of `chain` each "
        "time; 0: the whole row at once",
    )
    serial_rows: Natural = Field(
        default=0,
        description="a kernel with at most this number of rows has one block, which processes the rows one after the other",
    )
    row_chain: Energy = Field(default=Fraction(0), description="dependent DRAM loads for each row of `serial_rows`")
    again: Natural = Field(default=0, description="how often a row is read again: 1 for a norm, 2 for a softmax")
    held_elements: Natural = Field(
        default=0, description="length of the longest row that registers hold; a row of this length or less is not read again"
    )
    block_elements: Natural = Field(
        default=0,
        description="rows and columns of the blocks into which products are cut; one core computes one block; only "
        "for `kind: tensix`",
    )
    block_threads: Count = Field(default=128, description="threads of the block that reads a row; for `again`")
    share: Rate = Field(
        default=Fraction(1), description="rate of this software's products, divided by the rate that the chip sustains"
    )


class AttentionCost(Section):
    """How this software splits attention into blocks."""

    kernel: Literal["chip", "flash", "paged"] = Field(
        default="chip",
        description="which blocks are used: those of the chip's `attention_*`, or those of FlashAttention for one "
        "array (flash) or for pages (paged)",
    )
    split: Flag = Field(
        default=True, description="whether a step with only decodes divides the keys of a sequence among idle cores"
    )
    most_splits: Count = Field(default=128, description="largest number of parts into which the keys of a sequence are divided")
    split_sequences: Count = Field(default=1, description="least number of sequences of a step whose keys are divided")
    split_ns: Energy = Field(default=Fraction(4000), description="[ns] time to combine the parts")
    start_ns: Energy = Field(default=Fraction(4000), description="[ns] start time in addition to the chip's start of a kernel")
    whole_cache: Flag = Field(
        default=False,
        description="whether a decode step reads all of the KV cache for which a sequence has room, because arrays "
        "have fixed shapes",
    )
    cached_sequences: Natural = Field(
        default=0,
        description="largest number of sequences of a decode step whose keys a repetition finds in the last-level "
        "cache, if the keys fit",
    )


#: Kernels of an operation in their order: the name of each, and the bytes that it moves for each element of 16 bits.
Kernels: TypeAlias = tuple[tuple[str, Energy], ...]


class ModuleCode(Section):
    """Code of models that runs module by module, each function of a module in a kernel of its own."""

    launch_ns: dict[str, Energy] = Field(
        default_factory=dict,
        description="[ns] time of the host for each kernel of a step, with the calls and the views before the kernel; keys as "
        "in the profile's `launch_ns`",
    )
    attention: Literal["products", "fused"] = Field(
        default="products",
        description="attention as two products with the kernels `scores` between them (products), or in one kernel (fused)",
    )
    norm: Kernels = Field(default=(), description="of a root mean square norm; a norm with a mean is one kernel")
    residual: Kernels = Field(default=(), description="of the sum of a layer's input and the output of a part")
    rotary: Kernels = Field(default=(), description="of the rotation of queries, and again of keys")
    cache: Kernels = Field(default=(), description="of the cache of keys with the new ones, and again of values")
    repeat: Kernels = Field(
        default=(), description="of keys, and again of values, that are copied for each query head; only if heads share keys"
    )
    scores: Kernels = Field(default=(), description="of the scores between the two products")
    output: Kernels = Field(default=(), description="of the results of all heads after the second product")
    activation: Kernels = Field(default=(), description="of the activation of a feed-forward network")
    gate: Kernels = Field(default=(), description="of the product of activation and up projection")
    router: Kernels = Field(default=(), description="of the scores of the experts of a mixture")
    expert: Kernels = Field(default=(), description="of the tokens of each expert that is used, beside its network")
    inputs: Kernels = Field(default=(), description="of the embedded tokens, once a step: embedding, rotary tables, mask")
    logits: Kernels = Field(default=(), description="of the logits, once a step")
    waits: tuple[str, ...] = Field(
        default=(), description="kernels for whose results the host waits: a step with one of them has no launches ahead"
    )

    def launch(self, name: str, kind: str) -> Fraction:
        """[ns] The time of the host for a kernel, by the operation's name or class."""
        table = self.launch_ns
        return Fraction(table.get(name, table.get(kind, table.get("default", 0))))


class Runtime(Section):
    """A profile. `load_runtime` makes it."""

    schema_name: Literal["kernbench/runtime/1"] = Field(alias="schema", description="kind and version of the file")
    about: str = Field(description="the software, and how times were measured with it")
    start: Literal["none", "stream", "graph"] = Field(
        default="none", description="which start time of the chip is added to each kernel"
    )
    called_as: dict[str, str] = Field(
        default_factory=dict,
        description="for some operations, the group of operations that the host calls in the same way; a group is a "
        "key of `launch_ns` and `behind_ns`",
    )
    launch_ns: dict[str, Energy] = Field(
        default_factory=dict,
        description="[ns] time of the host before a kernel starts, by operation, group of `called_as` or class; "
        "`default` for all others",
    )
    sync_ns: Energy = Field(default=Fraction(0), description="[ns] time of the host after a kernel for which the host waits")
    pause_ns: Energy = Field(
        default=Fraction(0),
        description="[ns] time between two measured kernels, in which the cores are idle and the power limit does not "
        "reduce the clock; only for products on chips with a power limit",
    )
    behind_ns: dict[str, Energy] = Field(
        default_factory=dict, description="[ns] time of the host after a launch, while the kernel runs; keys as in `launch_ns`"
    )
    collective_ns: Energy = Field(
        default=Fraction(0),
        description="[ns] time of the device in a kernel of a collective, in addition to the steps between ranks "
        "that `kbsim ccl` simulates",
    )
    one_shot_bytes: dict[str, Natural] = Field(
        default_factory=dict,
        description="[byte] in a shorter all-reduce, each GPU of a node reads all data of the other GPUs; keys are "
        "the largest numbers of GPUs",
    )
    two_shot_bytes: Natural = Field(
        default=0,
        description="[byte] in a shorter all-reduce, the GPUs of a node first reduce one part each, then read all "
        "parts; NCCL runs longer ones",
    )
    step_ns: Energy = Field(
        default=Fraction(0), description="[ns] time of the host for a step of a model: scheduler, sampler, output of tokens"
    )
    sequence_ns: Energy = Field(
        default=Fraction(0), description="[ns] time of the host for each sequence of a step: sampling, text, stop conditions"
    )
    prompt_ns: Energy = Field(
        default=Fraction(0),
        description="[ns] additional time of the host for a step with prompts: new requests, their buffers and first tokens",
    )
    vocabulary_ns: Energy = Field(
        default=Fraction(0), description="[ns] time for each entry of the vocabulary in which a step chooses the next tokens"
    )
    result_byte_ns: Energy = Field(
        default=Fraction(0),
        description="[ns] time of the host for each byte of the feature maps that a network returns, to change their layout",
    )
    prefill_alone: Flag = Field(
        default=False,
        description="whether prompts are processed one after the other, and chips with copies of a model process "
        "the same prompt",
    )
    repeated: Flag = Field(
        default=False,
        description="whether times are means over many repetitions, in which a launch runs at the same time as the "
        "previous kernel",
    )
    ahead: Count = Field(
        default=1, description="largest number of launches in flight; the next launch waits for the end of the oldest"
    )
    attention: AttentionCost = Field(default_factory=AttentionCost, description="how attention is divided into blocks")
    ops: dict[str, OpCost] = Field(
        default_factory=dict, description="kernels of operations, by the name or class of the operation"
    )
    modules: ModuleCode | None = Field(
        default=None,
        description="steps of models that run module by module; `like` names a profile of the package whose values apply "
        "where there is no other",
    )
    fused: tuple[str, ...] = Field(default=(), description="operations that are part of the previous kernel, and take no time")

    def host_ns(self, sequences: int, vocab: int, *, prompt: bool) -> float:
        """[ns] The time of the host for a step of so many sequences, beside its launches. `prompt`: some of them are new."""
        step = self.step_ns + (self.prompt_ns if prompt else 0)
        return float(step + sequences * self.sequence_ns + vocab * self.vocabulary_ns)

    def launch(self, name: str, kind: str) -> Fraction:
        """[ns] The time of the host before a kernel of this operation starts, by the operation's name, the way it is called, or
        its class."""
        return Fraction(self.launch_ns.get(self.call(self.launch_ns, name, kind), 0))

    def step_launch(self, name: str, kind: str) -> Fraction:
        """[ns] The time of the host for a kernel in a step of a model, where it launches other kernels before and after."""
        return self.launch(name, kind) if self.modules is None else self.modules.launch(name, kind)

    def runs_ahead(self, names: Container[str]) -> bool:
        """Whether the host launches the kernels of a step ahead of the device; `names`: of these kernels."""
        waits = self.modules.waits if self.modules is not None else ()
        return self.ahead > 1 and not any(name in names for name in waits)

    def behind(self, name: str, kind: str) -> Fraction:
        """[ns] The time of the host after the launch, in parallel with the kernel."""
        return Fraction(self.behind_ns.get(self.call(self.behind_ns, name, kind), 0))

    def call(self, table: Mapping[str, Any], name: str, kind: str) -> str:
        """The key of `launch_ns` or `behind_ns` that applies to an operation; `default` if there is none."""
        keys = (name, self.called_as.get(name, ""), kind)
        return next((key for key in keys if key in table), "default")

    def cost(self, name: str, kind: str) -> OpCost:
        """The implementation of an operation, by its name or by its class."""
        return self.ops.get(name) or self.ops.get(kind) or OpCost()


def runtime_names() -> list[str]:
    """The profiles of the package."""
    folder = package_folder("kernbench.configs") / "runtimes"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def load_runtime(name: str | os.PathLike[str]) -> Runtime:
    """A profile of the package by its name, or a file; InputError for anything else."""
    text = os.fspath(name)
    if text.endswith((".yaml", ".yml", ".json")):
        path = Path(text)
    elif text in runtime_names():
        path = package_folder("kernbench.configs") / "runtimes" / f"{text}.yaml"
    else:
        near = meant(text, runtime_names())
        listed = "" if near else f"; the profiles are {', '.join(runtime_names())}"
        rule = f"there is no runtime profile {shown(text)}{listed}"
        raise InputError(Problem("--runtime", rule, remedy=near or "or name a .yaml file"))
    document = read_document(path, MACHINE_BYTES)
    check_kind(document.source, document.data, "runtime")
    try:
        return Runtime.model_validate(_with_modules(document))
    except ValidationError as error:
        found = [(item["loc"], item["msg"], item["input"], "") for item in error.errors()]
        raise InputError(document.problems(found)) from None


def _with_modules(document: Document) -> Any:
    """A profile's values, with those of the profile of the package that `modules.like` names."""
    data = document.data
    own = data.get("modules")
    if not isinstance(own, Mapping) or "like" not in own:
        return data
    like = own["like"]
    other = load_runtime(like).modules if isinstance(like, str) and like in runtime_names() else None
    if other is None:
        known = [name for name in runtime_names() if load_runtime(name).modules is not None]
        near = meant(like, known) if isinstance(like, str) else ""
        rule = f"it must be a profile of the package with modules: {', '.join(known)}"
        raise InputError(document.problem(("modules", "like"), rule, like, near))
    return {**data, "modules": {**dict(other), **{key: value for key, value in own.items() if key != "like"}}}
