"""Runtime profiles `kernbench/runtime/1`: the costs of the software that starts kernels, and the way in which its times were
measured.

The rules are in docs/model/host.md. A profile describes software, so it applies to every chip. The time that the chip itself
takes to start a kernel is a value of the chip.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.package_files import package_folder
from kernbench.common.spelling import meant
from kernbench.config.document import MACHINE_BYTES, read_document
from kernbench.config.fields import Count, Energy, Flag, Natural, Rate
from kernbench.config.section import Field, Section, ValidationError

CLASSES = ("matmul", "attention", "norm", "elementwise", "gather", "collective", "other")  #: classes of operations in tables


class OpCost(Section):
    """How this software carries out one operation."""

    kernels: Count = Field(default=1, description="kernels that it is made of")
    traffic: Rate = Field(default=Fraction(1), description="bytes that they move over the least bytes that the operation must")
    resident: Rate | None = Field(
        default=None, description="share of those bytes that is distinct: 0.5 for an operation in place; default: all of them"
    )
    start_ns: Energy = Field(default=Fraction(0), description="[ns] more than the chip's start of a kernel, for all of them")
    chain: Rate | None = Field(
        default=None,
        description="loads from DRAM in a row: of a vector kernel in a reading of a row, of a product before it starts; "
        "default: 1 if it misses",
    )
    thread_bytes: Rate | None = Field(
        default=None, description="[byte] that a thread of a vector kernel has in flight; default: what fills the cache's rate"
    )
    turn_elements: Natural = Field(
        default=0,
        description="elements of a row that a block takes in a turn; each turn takes `chain`; 0: the whole row in one turn",
    )
    serial_rows: Natural = Field(
        default=0, description="rows, at most, that one block takes one after the other, instead of a block for each row"
    )
    row_chain: Energy = Field(default=Fraction(0), description="loads from DRAM in a row for each of those rows")
    again: Natural = Field(default=0, description="times that a row is read after the first: 1 for a norm, 2 for a softmax")
    held_elements: Natural = Field(default=0, description="longest row that registers hold, which is not read again")
    block_elements: Natural = Field(
        default=0,
        description="rows and columns of the blocks that products are cut into; one block is one core's; of `kind: tensix`",
    )
    block_threads: Count = Field(default=128, description="threads of the block that has a row; of `again`")


class AttentionCost(Section):
    """How this software splits attention into blocks."""

    kernel: Literal["chip", "flash", "paged"] = Field(
        default="chip",
        description="whose blocks it takes: the chip's `attention_*`, or those of FlashAttention for one array or for pages",
    )
    split: Flag = Field(default=True, description="steps of decode alone cut a sequence's keys over idle cores")
    most_splits: Count = Field(default=128, description="parts of one sequence's keys, at most")
    split_sequences: Count = Field(default=1, description="sequences of a step, at least, for its keys to be cut")
    split_ns: Energy = Field(default=Fraction(4000), description="[ns] to combine the parts")
    start_ns: Energy = Field(default=Fraction(4000), description="[ns] more than the chip's start of a kernel")
    whole_cache: Flag = Field(
        default=False, description="steps of decode read all of the cache that a sequence has room for: shapes are compiled"
    )
    cached_sequences: Natural = Field(
        default=0,
        description="sequences of a decode step, at most, whose keys a repetition finds in the cache if it can hold them",
    )


class Runtime(Section):
    """A profile. `load_runtime` makes it."""

    schema_name: Literal["kernbench/runtime/1"] = Field(alias="schema", description="kind and version of the file")
    about: str = Field(description="which software, and how a time under it is taken")
    start: Literal["none", "stream", "graph"] = Field(default="none", description="which start of the chip a kernel costs")
    called_as: dict[str, str] = Field(
        default_factory=dict,
        description="how the host calls some operations: a key of `launch_ns` and `behind_ns` that they share, by operation",
    )
    launch_ns: dict[str, Energy] = Field(
        default_factory=dict,
        description="[ns] of the host before a kernel starts, by operation, way to call or class; `default` for others",
    )
    sync_ns: Energy = Field(default=Fraction(0), description="[ns] of the host after the last kernel, where each is waited for")
    behind_ns: dict[str, Energy] = Field(
        default_factory=dict, description="[ns] of the host after a launch, beside the kernel; keys as in `launch_ns`"
    )
    collective_ns: Energy = Field(
        default=Fraction(0),
        description="[ns] of the device in a kernel of a collective, beside the steps between ranks that `kbsim ccl` simulates",
    )
    one_shot_bytes: dict[str, Natural] = Field(
        default_factory=dict,
        description="[byte] each GPU of a node reads a shorter all-reduce whole from all others, by the most GPUs",
    )
    two_shot_bytes: Natural = Field(
        default=0, description="[byte] GPUs of a node reduce parts of a shorter all-reduce, then read them; others are NCCL's"
    )
    step_ns: Energy = Field(
        default=Fraction(0), description="[ns] of the host a step of a model: scheduler, sampler, tokens out"
    )
    sequence_ns: Energy = Field(default=Fraction(0), description="[ns] of the host a step and sequence: sampling, text, stops")
    vocabulary_ns: Energy = Field(
        default=Fraction(0), description="[ns] of choosing the next tokens, a step and entry of the vocabulary"
    )
    result_byte_ns: Energy = Field(
        default=Fraction(0), description="[ns] of the host for a byte of a network's feature maps that it gets: their layout"
    )
    prefill_alone: Flag = Field(
        default=False, description="prompts are taken one after the other; chips with copies of a model take the same one"
    )
    repeated: Flag = Field(
        default=False, description="times are means over many in a row: a launch runs beside the kernel before"
    )
    ahead: Count = Field(default=1, description="launches in flight, at most: the next waits for the end of the first")
    attention: AttentionCost = Field(default_factory=AttentionCost, description="how attention is carried out")
    ops: dict[str, OpCost] = Field(default_factory=dict, description="how operations are carried out, by name or class")
    fused: tuple[str, ...] = Field(
        default=(), description="operations that are part of the kernel before them, and cost nothing"
    )

    def launch(self, name: str, kind: str) -> Fraction:
        """[ns] The time of the host before a kernel of this operation starts, by the operation's name, the way it is called, or
        its class."""
        return Fraction(self.launch_ns.get(self.call(self.launch_ns, name, kind), 0))

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
    try:
        return Runtime.model_validate(document.data)
    except ValidationError as error:
        found = [(item["loc"], item["msg"], item["input"], "") for item in error.errors()]
        raise InputError(document.problems(found)) from None
