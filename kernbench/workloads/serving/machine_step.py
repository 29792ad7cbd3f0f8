"""One step of a model on a machine: simulated by the core, or on a chip as the sum of its operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.machine import plain_value
from kernbench.config.runtime import Runtime, load_runtime
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.version import VERSION
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.programs import PartPrograms
from kernbench.workloads.blocks.timer import StepTimer as CoreTimer
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.report import words
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.precision import Precision, uniform_precision
from kernbench.workloads.ops.decoder import DecoderShape, step_operations
from kernbench.workloads.ops.operation import Sequences as OperationSequences
from kernbench.workloads.ops.timing import OperationTimer
from kernbench.workloads.routing import EVEN, Routing

Edges = tuple[list[int], list[int], list[int]]  #: of a table: tokens of prefill, decodes, their context
_WIDE = 1 << 50  #: [byte] of DRAM while a step is timed: whether a batch fits is the engine's to decide
GRAPH_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))  #: [token] of the graphs that vLLM 0.19 captures


class MachineStep(ABC):
    """Times a step, and says how much memory the model leaves."""

    edges: Edges
    capture_sizes: tuple[int, ...] = ()  #: [token] of graphs that its software captures

    @abstractmethod
    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        """[ns] of a step of these sequences."""

    def energy_pj(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        """[pJ] of a step by part of the machine; empty where its model has no energy."""
        return {}

    @property
    def dram_pj_per_byte(self) -> float:
        """[pJ/byte] of its memory, of `energy_pj`."""
        return 0.0

    @property
    def static_mw(self) -> float:
        """[mW] that the machine takes while it is idle, of `energy_pj`."""
        return 0.0

    def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        """What needs the time of a step: resources in words, each with the share of the step that it needs alone; the largest
        first. A step that is not told apart is the device's."""
        return {"the device": 1.0}

    @abstractmethod
    def host_ns(self, sequences: int) -> int:
        """[ns] of the host for a step."""

    @abstractmethod
    def weight_bytes(self) -> int:
        """[byte] of memory, of each device, that the model takes without its KV cache."""

    @abstractmethod
    def token_bytes(self) -> int:
        """[byte] of a token in the KV cache of each device."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """[byte] of memory of each device."""

    def memory_bytes_per_ns(self) -> float:
        """[byte/ns] of the memory of each device."""
        raise InputError(Problem("serving", "this step does not say how fast its memory is", "step", type(self).__name__))

    @abstractmethod
    def content(self) -> Any:
        """All that the time depends on, as plain data."""


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
    ) -> None:  # fmt: skip
        self._given = model, precision, config
        self._job = Job(
            prompt=1, tokens=1, shards=shards, layers=layers, routing=routing, expert_parallel=expert_parallel
        )
        wide = config
        if isinstance(config, NpuConfig):
            wide = config.model_copy(update={"dram": config.dram.model_copy(update={"capacity_bytes": _WIDE})})
        self._timer = CoreTimer(
            model, precision, wide, shards=shards, layers=layers, routing=routing, expert_parallel=expert_parallel
        )
        self._freq = float(config.freq_ghz)
        self._runtime = runtime
        self._programs = PartPrograms(model, precision, config, self._job, batches=[Batch((Sequences(1),))])

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        return self._timer.step_cycles(sequences) / self._freq

    def energy_pj(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        return dict(sorted(self._timer.step_tally(sequences).energy_pj.items()))

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
            if name != "critical path":  # it is of jobs on all resources
                found[words(name)] = max(found.get(words(name), 0.0), cycles / tally.cycles)
        return _largest_first(found)

    def host_ns(self, sequences: int) -> int:
        return _host_ns(self._runtime, sequences)

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
        return {
            "versions": [MODEL_VERSION, VERSION], "model": repr(model), "precision": repr(precision),
            "machine": config.to_dict(), "job": repr(self._job),
        }  # fmt: skip


class ChipStep(MachineStep):
    """On a real chip: kernels in sequence under a runtime profile. `weight_bytes`: of one weight; `kv_bits` of the KV cache."""

    edges = (
        [1, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768, 131072],
        [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024],
        [0, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768, 65536, 131072],
    )

    def __init__(
        self, model: Model, config: NpuConfig, runtime: Runtime, *, shards: int = 1, weight_bits: int = 16, kv_bits: int = 16
    ) -> None:
        shape = model.shape
        if not model.planned or shape.experts:
            rule = "a step on a chip is made of the operations of a dense decoder, and this model has other parts"
            raise InputError(Problem(f"model {model.name}", rule, remedy="take an NPU or a system, or a dense model"))
        if kv_bits != 16:
            rule = "attention on a chip reads keys and values of 16 bits"
            raise InputError(Problem("kbsim serve", rule, "kv", kv_bits))
        self._model, self._config, self._shards = model, config, shards
        self._weight_bits, self._kv_bits = weight_bits, kv_bits
        self._runtime = runtime
        self._shape = DecoderShape(
            model.layers, shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.ffn, model.vocab, shape.gated
        )
        self._timer = OperationTimer(config, runtime)
        if runtime.start == "graph":
            self.capture_sizes = GRAPH_SIZES

    def device_ns(self, sequences: Sequence[Sequences]) -> float:
        groups = tuple(OperationSequences(one.count, one.tokens, one.context) for one in sequences)
        device = host = 0.0
        for op, times in step_operations(self._shape, groups, tp=self._shards, weight_bytes=self._weight_bits / 8):
            if op.name not in self._runtime.fused:
                device += times * self._timer.device_ns(op)
                host += times * float(self._runtime.launch(op.name, op.kind))
        return max(device, host) if self._runtime.ahead > 1 else device + host

    def limits(self, sequences: Sequence[Sequences]) -> dict[str, float]:
        groups = tuple(OperationSequences(one.count, one.tokens, one.context) for one in sequences)
        found: dict[str, float] = {}
        for op, times in step_operations(self._shape, groups, tp=self._shards, weight_bytes=self._weight_bits / 8):
            if op.name not in self._runtime.fused:
                for name, ns in self._timer.causes(op).items():
                    found[_CAUSES[name]] = found.get(_CAUSES[name], 0.0) + times * ns
        whole = self.device_ns(sequences)
        return _largest_first({name: ns / whole for name, ns in found.items()})

    def host_ns(self, sequences: int) -> int:
        return _host_ns(self._runtime, sequences)

    def weight_bytes(self) -> int:
        return -(-self._model.parameters * self._weight_bits // (8 * self._shards))

    def token_bytes(self) -> int:
        heads = max(1, self._shape.kv_heads // self._shards)
        return -(-2 * self._shape.layers * heads * self._shape.head_dim * self._kv_bits // 8)

    def memory_bytes(self) -> int:
        return int(self._config.dram.capacity_bytes)

    def memory_bytes_per_ns(self) -> float:
        config = self._config
        return float(config.dram.capacity * config.dram.channels * config.freq_ghz)

    def content(self) -> Any:
        return {
            "versions": [MODEL_VERSION, VERSION], "shape": repr(self._shape), "machine": self._config.to_dict(),
            "runtime": plain_value(self._runtime, whole=True), "shards": self._shards, "bits": self._weight_bits,
        }  # fmt: skip


#: Causes of the time of a kernel, in words.
_CAUSES = {
    "host": "launches by the host", "start": "starts of kernels", "te": "tensor engines", "ve": "vector engines",
    "memory": "DRAM bandwidth", "after": "reductions of split kernels",
}  # fmt: skip


def _largest_first(shares: dict[str, float]) -> dict[str, float]:
    return dict(sorted(((name, share) for name, share in shares.items() if share > 0), key=lambda one: -one[1]))


def _host_ns(runtime: Runtime | None, sequences: int) -> int:
    return round(runtime.step_ns + sequences * runtime.sequence_ns) if runtime is not None else 0


def machine_step(
    model: Model, config: NpuConfig | SystemConfig, *, w: int | None = None, a: int | None = None, kv: int | None = None,
    tp: int = 1, layers: int | None = None, routing: Routing = EVEN, ep: bool = False, runtime: str | None = None,
) -> MachineStep:  # fmt: skip
    """The step of a model on this machine. `w`, `a`, `kv`: bits, by default those of `kbsim llm`, on a chip 16.

    `runtime`: what the host adds: by default nothing, on a chip the profile `vllm`.
    """
    if isinstance(config, NpuConfig) and config.chip is not None:
        for name, given in (("layers", layers), ("ep", ep), ("a", a)):
            if given:
                raise InputError(Problem("kbsim serve", "it is not for chips", name, given))
        return ChipStep(
            model, config, load_runtime(runtime or "vllm"), shards=tp, weight_bits=w or 16, kv_bits=kv or 16
        )
    precision = uniform_precision(model.stated, w=w, a=a, kv=kv)
    host = None if runtime is None else load_runtime(runtime)
    return CoreStep(
        model, precision, config, shards=tp, layers=layers, routing=routing, expert_parallel=ep, runtime=host
    )
