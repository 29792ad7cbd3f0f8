"""One step of a model on a machine: simulated by the core, or on a chip as the sum of its operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.package_digest import package_digest
from kernbench.config.machine import plain_value
from kernbench.config.runtime import Runtime, load_runtime
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.version import VERSION
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.blocks.timer import StepTimer as CoreTimer
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.report import words
from kernbench.workloads.llm.run import Tally
from kernbench.workloads.llm.shards import ShardLocation, alike, shard_locations
from kernbench.workloads.llm.steps import Job, Stage
from kernbench.workloads.models.parts import Attention, Experts, LatentAttention
from kernbench.workloads.models.precision import Precision, uniform_precision
from kernbench.workloads.ops.blocks import Widths, without_kernels
from kernbench.workloads.ops.modules import step_kernels
from kernbench.workloads.ops.operation import Collective, Operation, Product, Vector
from kernbench.workloads.ops.operation import Sequences as OperationSequences
from kernbench.workloads.ops.step import kernels_ns
from kernbench.workloads.ops.timing import OperationTimer
from kernbench.workloads.parallel.hand_off import STAGING_BYTES
from kernbench.workloads.parallel.layout import Layout, check_layout, cut_layers
from kernbench.workloads.parallel.programs import hand_off_tally
from kernbench.workloads.routing import EVEN, Routing
from kernbench.workloads.serving.board import SERVE, chip_under_profile

Edges = tuple[list[int], list[int], list[int]]  #: edges of a table: tokens of prefill, decodes, their context
_ACTIVATION_BYTES = 2  #: [B] of an element that chips pass on
_IDLE = (Sequences(1),)  # the work of a replica without sequences, as in vLLM: one token whose result is not used
GRAPH_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))  #: [token] of the graphs that vLLM 0.19 captures


class MachineStep(ABC):
    """Times a step, and gives the memory that the model leaves free."""

    edges: Edges
    kv_bits: int = 16  #: bits of an element of the KV cache
    capture_sizes: tuple[int, ...] = ()  #: [token] sizes of graphs that its software captures

    @abstractmethod
    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        """[ns] of a step of these sequences."""

    def replicas_ns(self, replicas: Sequence[Sequence[Sequences]]) -> float:
        """[ns] of a step of replicas that share experts, each with its own sequences; a replica without sequences computes one
        token."""
        return max(self.device_ns(one) for one in replicas if one)

    def energy_pj(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        """[pJ] of a step by part of the machine; empty if its model has no energy."""
        return {}

    def replicas_pj(self, replicas: Sequence[Sequence[Sequences]]) -> dict[str, float]:
        """[pJ] of the step of `replicas_ns`."""
        return sums_of(self.energy_pj(one) for one in replicas if one)

    @property
    def sharers(self) -> int:
        """Replicas that share experts, and so compute each step together."""
        return 1

    @property
    def dram_pj_per_byte(self) -> float:
        """[pJ/byte] The energy of its memory, for `energy_pj`."""
        return 0.0

    @property
    def static_mw(self) -> float:
        """[mW] The static power of the machine, for `energy_pj`."""
        return 0.0

    def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        """The limits of a step: resources in words, each with the share of the step that it needs alone; the largest first. A
        step without further detail counts as limited by the device."""
        return {"the device": 1.0}

    @property
    def layers(self) -> int | None:
        """The number of layers of the model on these devices; None for all."""
        return None

    @property
    def stages(self) -> tuple[MachineStep, ...]:
        """The stages of a pipeline; a step that one group of devices computes is its only stage."""
        return (self,)

    def hand_off_ns(self, tokens: int) -> float:
        """[ns] The time to pass this number of tokens to the next stage of a pipeline; 0 for the last stage."""
        return 0.0

    def hand_off_pj(self, tokens: int) -> dict[str, float]:
        """[pJ] The energy of the hand-off by part of the machine."""
        return {}

    @abstractmethod
    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        """[ns] of the host for a step. `prompt`: some of its sequences are new."""

    @abstractmethod
    def weight_bytes(self) -> int:
        """[byte] The memory of each device that the model occupies without its KV cache."""

    @abstractmethod
    def token_bytes(self) -> int:
        """[byte] of a token in the KV cache of each device."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """[byte] of memory of each device."""

    def memory_bytes_per_ns(self) -> float:
        """[byte/ns] of the memory of each device."""
        raise InputError(Problem("serving", "the memory bandwidth of this step is not known", "step", type(self).__name__))

    @abstractmethod
    def content(self) -> Any:
        """All data on which the time depends, as plain data."""


class CoreStep(MachineStep):
    """On an NPU, or PEs of a system: every step is a program that the core simulates."""

    edges = (
        [1, 16, 64, 128, 256, 512, 2048, 8192, 32768, 131072],
        [1, 8, 32, 64, 128, 256, 512, 1024],
        [0, 64, 256, 1024, 4096, 16384, 65536, 262144],
    )

    def __init__(
        self, model: Model, precision: Precision, config: NpuConfig | SystemConfig, *, shards: int = 1,
        layers: int | None = None, routing: Routing = EVEN, expert_parallel: bool = False, runtime: Runtime | None = None,
        stage: Stage | None = None, place: int = 0, sharers: int = 1,
    ) -> None:  # fmt: skip
        self._given = model, precision, config
        self.kv_bits = precision.kv
        part: dict[str, Any] = {}
        if stage is not None:
            part = {"stage": stage, "first_pe": place * shards, "staging": STAGING_BYTES}
        self._job = Job(
            prompt=1, tokens=1, batch=sharers, shards=shards, layers=layers, routing=routing, expert_parallel=expert_parallel,
            sharers=sharers, **part,
        )  # fmt: skip
        self._timer = CoreTimer(  # the engine decides whether a batch fits
            model, precision, config, shards=shards, layers=layers, routing=routing, expert_parallel=expert_parallel,
            any_size=True, sharers=sharers, **part,
        )  # fmt: skip
        self._freq = float(config.freq_ghz)
        self._runtime = runtime
        self._programs = BlockPrograms(model, precision, config, self._job, batches=[Batch((Sequences(1),))] * sharers)

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return self._timer.step_cycles(sequences) / self._freq

    def replicas_ns(self, replicas: Sequence[Sequence[Sequences]]) -> float:
        return self._timer.replicas_cycles(one or _IDLE for one in replicas) / self._freq

    def replicas_pj(self, replicas: Sequence[Sequence[Sequences]]) -> dict[str, float]:
        return dict(sorted(self._timer.replicas_tally(one or _IDLE for one in replicas).energy_pj.items()))

    @property
    def sharers(self) -> int:
        return self._job.sharers

    def energy_pj(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        return dict(sorted(self._timer.step_tally(sequences).energy_pj.items()))

    @property
    def layers(self) -> int | None:
        return None if self._job.stage is None else self._job.stage.count

    def hand_off_ns(self, tokens: int) -> float:
        return self._hand_off(tokens).cycles / self._freq

    def hand_off_pj(self, tokens: int) -> dict[str, float]:
        parts = self._hand_off(tokens).energy_pj
        return {name: float(pj) for name, pj in sorted(parts.items()) if name != "static"}  # stages run in parallel with it

    def _hand_off(self, tokens: int) -> Tally:
        """The transfer of tokens from DRAM to the DRAM of the PEs of the next stage; nothing else uses the links."""
        receivers, programs = self._receivers(), self._programs
        if not receivers:
            return Tally()
        return hand_off_tally(programs, receivers, tokens * self._given[0].shape.hidden, programs.shapes[-1].activation_bits)

    def _receivers(self) -> list[ShardLocation]:
        """The PEs of the next stage."""
        job, config = self._job, self._given[2]
        if job.stage is None or job.stage.head:
            return []
        return shard_locations(config, job.shards, job.first_pe + job.shards)

    @property
    def dram_pj_per_byte(self) -> float:
        return float(self._given[2].energy.dram_pj_per_byte)

    @property
    def static_mw(self) -> float:
        return float(self._given[2].energy.static_mw)

    def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        tally = self._timer.step_tally(sequences)
        found: dict[str, float] = {}
        for name, cycles in tally.bounds.items():
            if name != "critical path":  # it belongs to jobs on all resources
                found[words(name)] = max(found.get(words(name), 0.0), cycles / tally.cycles)
        return _largest_first(found)

    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        runtime = self._runtime
        return round(runtime.host_ns(sequences, self._given[0].vocab, prompt=prompt)) if runtime is not None else 0

    def weight_bytes(self) -> int:
        return self._programs.dram.end

    def token_bytes(self) -> int:
        bits = 0
        for shape in self._programs.shapes:
            bits += sum(heads * dim for _, heads, dim in shape.cached) * shape.kv_bits  # type: ignore[attr-defined]
        return -(-bits // 8)

    def memory_bytes(self) -> int:
        return int(self._programs.machine.dram.capacity_bytes)

    def memory_bytes_per_ns(self) -> float:
        machine = self._programs.machine
        return float(machine.dram.capacity * machine.dram.channels) * self._freq

    def content(self) -> Any:
        model, precision, config = self._given
        found: dict[str, Any] = {
            "versions": versions(), "model": repr(model), "precision": repr(precision),
            "machine": config.to_dict(), "job": repr(self._job),
        }  # fmt: skip
        if (stage := self._job.stage) is not None:  # equal stages of a pipeline have equal content
            found["job"] = repr(replace(self._job, stage=None, first_pe=0))
            found["stage"] = [stage.embedding, stage.head, repr(self._programs.shapes)]
            found["places"] = repr(alike(config, [*self._programs.places, *self._receivers()]))
        return found


def versions() -> list[str]:
    """The data on which times of steps depend in addition to machine and model: the timing model, and the code that makes
    programs."""
    return [str(MODEL_VERSION), VERSION, package_digest("kernbench.workloads")]


@dataclass(frozen=True, slots=True)
class OperationTime:
    """An operation of a step on a chip, and its time on the device."""

    name: str
    kind: str
    shape: str  #: m x n x k of a product, rows x columns of a vector operation, the data of a collective; else empty
    count: int  #: launches in the step
    ns: float  #: [ns] of each
    causes: Mapping[str, float]  #: [ns] that each part would take alone, by its name in words

    @property
    def limit(self) -> str:
        """The part that takes the longest."""
        return max(self.causes, key=lambda name: self.causes[name], default="")


class ChipStep(MachineStep):
    """On a real chip: kernels in sequence under a runtime profile. `weight_bits`, `activation_bits`, `kv_bits`: of elements of
    the weights, the activations and the KV cache.
    """

    edges = (
        [1, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768, 131072],
        [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024],
        [0, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768, 65536, 131072],
    )

    def __init__(
        self, model: Model, config: NpuConfig, runtime: Runtime, *, shards: int = 1, weight_bits: int = 16, kv_bits: int = 16,
        activation_bits: int = 16, stage: Stage | None = None,
    ) -> None:  # fmt: skip
        description = model.description
        assert description is not None  # models that are read from a file have one
        other = without_kernels(description)
        if other:
            rule = f"a step on a chip is made of kernels for attention and feed-forward networks, and this model has {other}"
            raise InputError(Problem(f"model {model.name}", rule, remedy="use an NPU or a system"))
        self._model, self._config, self._shards = model, config, shards
        self._weight_bits, self.kv_bits = weight_bits, kv_bits
        self._widths = Widths(weight_bits / 8, kv_bits / 8, activation_bits)
        self._runtime = runtime
        self._stage = Stage(0, model.layers) if stage is None else stage
        self._blocks = description.blocks[self._stage.first : self._stage.first + self._stage.count]
        self._hidden, self._final_norm = description.hidden, description.decoder.final_norm
        self._timer = OperationTimer(config, runtime)
        if runtime.start == "graph":
            self.capture_sizes = GRAPH_SIZES

    def on(self, shards: int) -> ChipStep:
        """The same step of a model that this number of chips shares."""
        other = copy(self)
        other._shards = shards
        return other

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return kernels_ns(self._timer, self._operations(sequences))

    def operations(self, sequences: Sequence[Sequences]) -> list[OperationTime]:
        """The operations of a step in the order of their first launch, without those that are fused into others."""
        return [
            OperationTime(
                op.name, op.kind, _shape_text(op), times, self._timer.device_ns(op),
                {cause_text(op, name): ns for name, ns in self._timer.causes(op, step=True).items()},
            )
            for op, times in self._operations(sequences) if op.name not in self._runtime.fused
        ]  # fmt: skip

    @property
    def runs_ahead(self) -> bool:
        """Whether the host launches kernels ahead of the device."""
        one = self._operations([Sequences(1)])
        return self._runtime.runs_ahead({op.name for op, _ in one})

    def launches_ns(self, sequences: Sequence[Sequences]) -> float:
        """[ns] that the host takes to launch the operations of a step."""
        runtime, some = self._runtime, self._operations(sequences)
        return sum(times * float(runtime.step_launch(op.name, op.kind)) for op, times in some if op.name not in runtime.fused)

    def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        found: dict[str, float] = {}
        for op in self.operations(sequences):
            for name, ns in op.causes.items():
                found[name] = found.get(name, 0.0) + op.count * ns
        whole = self.device_ns(sequences)
        return _largest_first({name: ns / whole for name, ns in found.items()})

    def _operations(self, sequences: Sequence[Sequences]) -> Iterator[tuple[Operation, int]]:
        groups = tuple(OperationSequences(one.count, one.tokens, one.context) for one in sequences)
        kernels = step_kernels(self._runtime, self._hidden, groups, self._widths, self._shards)
        yield from kernels.blocks(self._blocks)
        if self._stage.head:
            yield from kernels.ends(self._model.vocab, self._final_norm)

    @property
    def layers(self) -> int | None:
        return self._stage.count

    def hand_off_ns(self, tokens: int) -> float:
        """Each chip sends to its peer, in one transfer."""
        if self._stage.head:
            return 0.0
        return float(self._timer.device_ns(Collective("send_recv", 2, _ACTIVATION_BYTES * tokens * self._hidden)))

    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        return round(self._runtime.host_ns(sequences, self._model.vocab, prompt=prompt))

    def weight_bytes(self) -> int:
        model, stage = self._model, self._stage
        words = model.vocab * self._hidden
        assert model.description is not None
        whole, mine = (
            sum(block.parameters(self._hidden) for block in blocks) for blocks in (model.description.blocks, self._blocks)
        )
        layers = model.parameters - words * (1 if model.tied else 2)
        ends = words * (stage.embedding + (stage.head and not (model.tied and stage.embedding)))
        held = -(-layers * mine // whole) + ends
        return -(-held * self._weight_bits // (8 * self._shards))

    def token_bytes(self) -> int:
        elements = 0
        for block in self._blocks:
            if isinstance(block.mixer, Attention):
                elements += 2 * -(-block.mixer.kv_heads // self._shards) * block.mixer.head_dim
            elif isinstance(block.mixer, LatentAttention):  # every chip has all latent vectors
                elements += block.mixer.token_elements
        return -(-elements * self.kv_bits // 8)

    def memory_bytes(self) -> int:
        return int(self._config.dram.capacity_bytes)

    def memory_bytes_per_ns(self) -> float:
        config = self._config
        return float(config.dram.capacity * config.dram.channels * config.freq_ghz)

    def content(self) -> Any:
        return {
            "versions": versions(), "blocks": repr(self._blocks), "hidden": self._hidden, "vocab": self._model.vocab,
            "machine": self._config.to_dict(),
            "runtime": plain_value(self._runtime, whole=True), "shards": self._shards, "widths": repr(self._widths),
            **({} if self._stage.head else {"head": False}),
        }  # fmt: skip


class Pipeline(MachineStep):
    """Stages on groups of devices: each group has some of the layers. A token of the KV cache has a part in each."""

    def __init__(self, stages: Sequence[MachineStep]) -> None:
        self._stages = tuple(stages)
        self.edges, self.capture_sizes, self.kv_bits = stages[0].edges, stages[0].capture_sizes, stages[0].kv_bits

    @property
    def stages(self) -> tuple[MachineStep, ...]:
        return self._stages

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        tokens = sum(one.tokens * one.count for one in sequences)
        return sum(one.device_ns(sequences) + one.hand_off_ns(tokens) for one in self._stages)

    def energy_pj(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        tokens = sum(one.tokens * one.count for one in sequences)
        return sums_of(parts for one in self._stages for parts in (one.energy_pj(sequences), one.hand_off_pj(tokens)))

    @property
    def dram_pj_per_byte(self) -> float:
        return self._stages[0].dram_pj_per_byte

    @property
    def static_mw(self) -> float:
        return self._stages[0].static_mw

    def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        """The limits of the slowest stage."""
        return max(self._stages, key=lambda one: one.device_ns(sequences)).limits(sequences)

    def host_ns(self, sequences: int, *, prompt: bool) -> int:
        return self._stages[0].host_ns(sequences, prompt=prompt)

    def weight_bytes(self) -> int:
        return max(one.weight_bytes() for one in self._stages)

    def token_bytes(self) -> int:
        """[byte] of a token in the KV cache of one device of each stage, together."""
        return sum(one.token_bytes() for one in self._stages)

    def memory_bytes(self) -> int:
        return self._stages[0].memory_bytes()

    def memory_bytes_per_ns(self) -> float:
        return self._stages[0].memory_bytes_per_ns()

    def content(self) -> Any:
        return [one.content() for one in self._stages]


def _shape_text(op: Operation) -> str:
    if isinstance(op, Product):
        return (f"{op.count} of " if op.count > 1 else "") + f"{op.m} x {op.n} x {op.k}"
    if isinstance(op, Vector):
        return f"{op.rows} x {op.width}"
    if isinstance(op, Collective):
        return f"{op.nbytes} B"
    longest = max(one.cached + one.new for one in op.groups)
    tokens = sum(one.count * one.new for one in op.groups)
    return f"{tokens} x {longest} keys"


#: Causes of the time of a kernel, in words.
_CAUSES = {
    "host": "launches by the host", "start": "starts of kernels", "te": "tensor engines", "ve": "vector engines",
    "memory": "DRAM bandwidth", "after": "reductions of split kernels",
}  # fmt: skip


def cause_text(op: Operation, name: str) -> str:
    """A cause in words; an engine stands for the links between chips in a collective."""
    return "links between chips" if isinstance(op, Collective) and name in ("te", "ve") else _CAUSES[name]


def _largest_first(shares: dict[str, float]) -> dict[str, float]:
    return dict(sorted(((name, share) for name, share in shares.items() if share > 0), key=lambda one: -one[1]))


def sums_of(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of each part."""
    found: dict[str, float] = {}
    for one in parts:
        for name, value in one.items():
            found[name] = found.get(name, 0.0) + value
    return found


def _is_mixture(model: Model) -> bool:
    """Whether some layer has experts."""
    return model.description is not None and any(isinstance(block.ffn, Experts) for block in model.description.blocks)


def check_bits_on_chip(where: str, a: int | None, kv: int | None, names: tuple[str, str]) -> None:
    """InputError about bits that no kernel of a chip has; `names`: the names of the values of `a` and `kv`."""
    for name, bits, what in ((names[0], a, "activations"), (names[1], kv, "keys and values")):
        if bits not in (None, 8, 16):
            raise InputError(Problem(where, f"on a chip, {what} have 8 or 16 bits", name, bits))


def bits_on_chip(model: Model, w: int | None, a: int | None, kv: int | None) -> dict[str, int]:
    """The bits of a model on a chip, as arguments of `ChipStep`: those given, else those that its file states, else 16."""
    stated = model.stated
    return {
        "weight_bits": w or stated.w or 16,
        "activation_bits": a or (8 if stated.a == 8 else 16),
        "kv_bits": kv or (8 if stated.kv == 8 else 16),
    }


def machine_step(
    model: Model, config: NpuConfig | SystemConfig, *, w: int | None = None, a: int | None = None, kv: int | None = None,
    tp: int = 1, pp: int = 1, dp: int = 1, layers: int | None = None, routing: Routing = EVEN, ep: bool = False,
    runtime: str | None = None,
) -> MachineStep:  # fmt: skip
    """The step of a model on this machine. `w`, `a`, `kv`: bits; the defaults are those of `kbsim llm`, and 16 on a chip.

    `pp`: stages, each of `tp` devices. `dp`: copies of the model for which the machine must have devices; InputError if it has
    too few. With `ep` the copies of a mixture share its experts. `runtime`: the profile of the host's times; the default is
    none, and on a chip the profile `vllm`. With a profile, a board of chips takes the times of its chip and of its links.
    """
    sharers = dp if ep and _is_mixture(model) else 1
    if sharers > 1 and pp > 1:
        rule = "copies of the model that share experts compute each step together, and have one stage"
        raise InputError(Problem("kbsim serve", rule, "--pp", pp, "take --pp 1 or --dp 1, or leave out --ep"))
    precision = uniform_precision(model.stated, w=w, a=a, kv=kv)
    layout, count = Layout(tp, pp, dp), layers or model.layers
    if runtime is not None:  # the profile of a board is that of its chips
        config = chip_under_profile(config, tp * pp * dp, spelling=SERVE) or config
    if layout.pp != 1 or layout.dp != 1:
        check_layout(layout, model, config, layout.dp, count, where="kbsim serve", apart=config.chip is not None)
    stages = [None] if pp == 1 else list[Stage | None](cut_layers(model, precision, count, layout))
    if config.chip is not None:
        for option, given, rule in (
            ("--layers", layers, "on a chip, each step runs all layers"),
            ("--ep", ep, "on a chip, each rank has a share of every expert"),
        ):
            if given:
                raise InputError(Problem("kbsim serve", f"{rule}; leave out {option}", option, given))
        profile = load_runtime(runtime or "vllm")
        check_bits_on_chip("kbsim serve", a, kv, ("--a", "--kv-cache-dtype"))
        bits = bits_on_chip(model, w, a, kv)
        made: list[MachineStep] = [
            ChipStep(model, config, profile, shards=tp, stage=stage, **bits)
            for stage in stages
        ]
    else:
        host = None if runtime is None else load_runtime(runtime)
        made = [
            CoreStep(
                model, precision, config, shards=tp, layers=layers, routing=routing, expert_parallel=ep, runtime=host,
                stage=stage, place=place, sharers=sharers,
            )
            for place, stage in enumerate(stages)
        ]  # fmt: skip
    return made[0] if pp == 1 else Pipeline(made)
