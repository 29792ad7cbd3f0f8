"""A prompt and the decode steps after it on a real chip: kernels in sequence under a runtime profile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kernbench.common.errors import InputError, Problem
from kernbench.config import load_config
from kernbench.config.runtime import Runtime, load_runtime
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models.files import load_model
from kernbench.workloads.serving.board import PYTHON, Spelling, chip_under_profile
from kernbench.workloads.serving.machine_step import ChipStep, OperationTime

MAX_CHIPS = 64  #: chips that a refusal recommends at most


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """The steps of a phase."""

    phase: str  #: prefill or decode
    steps: int
    tokens: int  #: new tokens of all sequences and steps
    ns: float  #: [ns] of all steps
    launches_ns: float  #: [ns] that the host launches
    steps_ns: float  #: [ns] of the host between steps, such as the sampler
    context: int  #: [token] before the step whose operations are shown: the middle one
    operations: tuple[OperationTime, ...]

    @property
    def device_ns(self) -> float:
        """[ns] of the kernels of the step that is shown."""
        return sum(op.count * op.ns for op in self.operations)


@dataclass(frozen=True, slots=True)
class Generation:
    """The times of a prompt and of decoded tokens."""

    phases: tuple[PhaseTimes, ...]
    weight_bytes: int  #: of one chip
    kv_bytes: int  #: of one chip at the end
    memory_bytes: int
    runs_ahead: bool = True  #: whether the host launches kernels ahead of the device

    def phase(self, name: str) -> PhaseTimes | None:
        """A phase by name."""
        return next((one for one in self.phases if one.phase == name), None)

    @property
    def ttft_ns(self) -> float | None:
        """[ns] of the prompt."""
        prefill = self.phase("prefill")
        return None if prefill is None else prefill.ns

    @property
    def tpot_ns(self) -> float | None:
        """[ns] of a decode step, on average."""
        decode = self.phase("decode")
        return None if decode is None else decode.ns / decode.steps

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of the last phase."""
        last = self.phases[-1]
        return last.tokens / last.ns * 1e9

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "tokens_per_s": self.tokens_per_s, "ttft_ns": self.ttft_ns, "tpot_ns": self.tpot_ns,
            "weight_bytes": self.weight_bytes, "kv_bytes": self.kv_bytes, "memory_bytes": self.memory_bytes,
            "phases": {
                one.phase: {
                    "steps": one.steps, "tokens": one.tokens, "ns": one.ns, "launches_ns": one.launches_ns,
                    "steps_ns": one.steps_ns, "context": one.context,
                    "operations": [
                        {
                            "name": op.name, "kind": op.kind, "shape": op.shape, "count": op.count, "ns": op.ns,
                            "causes_ns": dict(op.causes),
                        }
                        for op in one.operations
                    ],
                }
                for one in self.phases
            },
        }  # fmt: skip


def generate(
    model: Model | str | os.PathLike[str], machine: NpuConfig | SystemConfig | str, runtime: Runtime | str = "vllm", *,
    prompt: int, tokens: int, batch: int = 1, tp: int = 1, weight_bits: int = 16, activation_bits: int = 16, kv_bits: int = 16,
    phases: Sequence[str] = ("prefill", "decode"), spelling: Spelling = PYTHON,
) -> Generation:  # fmt: skip
    """The times of `batch` sequences on `tp` chips: a prompt of `prompt` tokens each, and then `tokens` decode steps.

    - `model`: a name, a Hugging Face `config.json`, or a loaded model.
    - `machine`: a chip, such as `a100`, or a board of chips, such as `a100_8x`.
    - `runtime`: a runtime profile, which gives the launches and the work of the host.
    - `weight_bits`, `activation_bits`, `kv_bits`: bits of an element of the weights, of the activations, and of keys and
      values. Matrix products run on the multipliers for the activations, because kernels expand narrower weights.
    - `spelling`: how refusals name these parameters.

    The function raises InputError if the machine is no chip, if the model has other parts than attention and feed-forward
    networks, or if the chips' memory is too small.

    >>> from kernbench.serving import generate
    >>> run = generate("llama2-7b", "a100", "cuda_graph", prompt=128, tokens=2)
    >>> run.tokens_per_s > 100, run.phases[-1].operations[0].name
    (True, 'layernorm')
    """
    model = model if isinstance(model, Model) else load_model(os.fspath(model))
    runtime = runtime if isinstance(runtime, Runtime) else load_runtime(runtime)
    machine, chips = _chip(machine, tp, spelling)
    step = ChipStep(
        model, machine, runtime, shards=tp, weight_bits=weight_bits, activation_bits=activation_bits, kv_bits=kv_bits
    )
    room = _Room(model, step, chips, prompt, tokens, batch, tp, weight_bits, kv_bits)
    if room.taken > step.memory_bytes():
        raise InputError(Problem(machine.source, room.rule, remedy=room.remedy(spelling)))
    found = []
    if "prefill" in phases:
        found.append(_phase(step, "prefill", [(Sequences(prompt, 0, batch),)]))
    if "decode" in phases:
        found.append(_phase(step, "decode", [(Sequences(1, prompt + i, batch),) for i in range(tokens)]))
    return Generation(tuple(found), step.weight_bytes(), room.kv, step.memory_bytes(), step.runs_ahead)


def _chip(machine: NpuConfig | SystemConfig | str, tp: int, spelling: Spelling) -> tuple[NpuConfig, int]:
    """The chip, and how many of it a run may use."""
    found = load_config(machine) if isinstance(machine, str) else machine
    chip = chip_under_profile(found, tp, spelling=spelling)
    if chip is not None:
        return chip, MAX_CHIPS if found.chip is not None else cast("SystemConfig", found).system.sips
    rule = "a runtime profile times the kernels of a chip, and this machine is no chip"
    raise InputError(Problem(found.source, rule, remedy="take a100, or another chip of kbsim config list"))


def _phase(step: ChipStep, name: str, steps: Sequence[tuple[Sequences, ...]]) -> PhaseTimes:
    between = [step.host_ns(sum(one.count for one in sequences), prompt=name == "prefill") for sequences in steps]
    shown = steps[len(steps) // 2]
    return PhaseTimes(
        name, len(steps), sum(one.count * one.tokens for sequences in steps for one in sequences),
        sum(map(step.device_ns, steps)) + sum(between), sum(map(step.launches_ns, steps)), sum(between), shown[0].context,
        tuple(step.operations(shown)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Room:
    """The memory of each chip that a run needs, and the changes that would make the run fit."""

    model: Model
    step: ChipStep
    chips: int  #: the largest number of chips
    prompt: int
    tokens: int
    batch: int
    tp: int
    weight_bits: int
    kv_bits: int

    @property
    def held(self) -> int:
        """[token] of all sequences at the end."""
        return self.batch * (self.prompt + self.tokens)

    @property
    def kv(self) -> int:
        """[byte] of keys and values of a chip at the end."""
        return self.held * self.step.token_bytes()

    @property
    def taken(self) -> int:
        """[byte] of a chip."""
        return self.step.weight_bytes() + self.kv

    @property
    def rule(self) -> str:
        room = self.step.memory_bytes()
        taken = f"{self.model.name} takes {self.taken:,} bytes of each chip, {self.kv:,} of them for keys and values"
        return f"{taken}, and a chip has {room:,}"

    def remedy(self, spelling: Spelling) -> str:
        """All changes of one parameter that are enough."""
        ways = [f"{what} ({spelling.of(name, value)})" for what, name, value in self._changes()]
        if not ways:
            return "take a chip with more memory"
        return "take " + ", ".join(ways[:-1]) + (" or " if ways[1:] else "") + ways[-1]

    def _changes(self) -> Iterator[tuple[str, str, int]]:
        weights, room = self.step.weight_bytes(), self.step.memory_bytes()
        for what, name, now, allowed, fixed, part in (
            ("fewer bits of weights", "w", self.weight_bits, (8, 4), self.kv, weights),
            ("fewer bits of keys and values", "kv", self.kv_bits, (8,), weights, self.kv),
        ):
            if few := next((bits for bits in allowed if bits < now and fixed + part * bits / now <= room), 0):
                yield what, name, few
        for many in _doubles(self.tp, self.chips):
            step = self.step.on(many)
            if step.weight_bytes() + self.held * step.token_bytes() <= room:
                yield "more chips", "tp", many
                break
        each = (room - weights) // self.step.token_bytes() if room > weights else 0  # tokens of all sequences
        if batch := each // (self.prompt + self.tokens):
            yield "a smaller batch", "batch", batch
        if (prompt := each // self.batch - self.tokens) > 0:
            yield "a shorter prompt", "prompt", prompt


def _doubles(tp: int, most: int) -> Iterator[int]:
    while 2 * tp <= most:
        tp *= 2
        yield tp
