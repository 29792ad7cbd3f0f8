"""How a job is divided over the PEs of a system: into replicas, stages of a pipeline, and shards of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.common.units import even_parts
from kernbench.config.kinds import a_system, larger
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.steps import Stage
from kernbench.workloads.models.parts import Experts
from kernbench.workloads.models.precision import Precision


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """`dp` replicas of the model; each replica has `pp` stages of layers, and each layer has `tp` shards.

    Each shard has `cp` ranks, which share the tokens of each sequence. `sp`: shards have their own rows between products.
    `shared_experts`: replicas share the experts of a mixture, so they run each layer together. `rank`, `rank_pes`: the kind of
    rank in which `tp` was given, and its number of PEs; `tp` itself counts PEs.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    #: parts of the batch of a replica that go through the stages one after another; 0 for the number of stages
    micro_batches: int = 0
    cp: int = 1
    sp: bool = False
    shared_experts: bool = False
    rank: str = "pe"
    rank_pes: int = 1

    @property
    def pes(self) -> int:
        """The number of PEs in the layout."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def sharers(self) -> int:
        """The number of replicas that share experts."""
        return self.dp if self.shared_experts else 1

    @property
    def copies(self) -> int:
        """The number of independent replicas, or of independent groups of replicas that share experts."""
        return 1 if self.shared_experts else self.dp

    @property
    def stage_pes(self) -> int:
        """The number of PEs that run one layer together."""
        return self.tp * self.cp * self.sharers

    @property
    def text(self) -> str:
        """The layout as options: `--tp 8 --pp 2`."""
        named = (("tp", self.ranks), ("cp", self.cp), ("pp", self.pp), ("dp", self.dp))
        found = [f"--{name} {count}" for name, count in named if count > 1] or ["--tp 1"]
        if self.rank_pes > 1:
            found.append(f"--rank {self.rank}")
        return " ".join([*found, *(["--sp"] if self.sp else [])])

    @property
    def ranks(self) -> int:
        """The number of ranks among which each layer is divided; a rank divides its shard over its PEs."""
        return self.tp // self.rank_pes

    def to_dict(self) -> dict[str, Any]:
        """The data for `--json`; the kind of rank is included only if a rank has more than one PE."""
        found = asdict(self)
        kind, pes = found.pop("rank"), found.pop("rank_pes")
        return found | ({"rank": {"kind": kind, "pes": pes, "tp": self.ranks}} if pes > 1 else {})

    def micro_sizes(self, batch: int) -> list[int]:
        """[sequence] Size of each micro-batch of the largest replica, or of the replicas that share experts; larger ones
        first."""
        most = max(1, batch // self.sharers) if self.shared_experts else self.replica(batch)
        return even_parts(self.replica(batch), self.micro_batches or min(self.pp, most))

    def replica(self, batch: int) -> int:
        """[sequence] The batch of the largest replica; for replicas that share experts, the batch of all of them."""
        return -(-batch // self.copies)

    def first_pe(self, replica: int, stage: int) -> int:
        """The PE of the first shard of a stage: PEs are numbered by shard, then rank, stage and replica.

        For replicas that share experts, the replicas of one stage are next to each other.
        """
        return (replica * self.pp + stage) * self.stage_pes


RANKS = ("pe", "cube", "sip")  #: kinds of ranks of tensor parallelism


def layout_in_ranks(
    layout: Layout, rank: str, config: NpuConfig | SystemConfig, *, where: str = "kbsim llm"
) -> Layout:
    """The layout for a `tp` that counts ranks of this kind; the `tp` of the result counts PEs. Raises InputError if the machine
    does not have this kind."""
    if rank not in RANKS:
        raise InputError(Problem(where, f"it must be one of {', '.join(RANKS)}", "rank", rank))
    if rank == "pe":
        return layout
    system = a_system(where, config, f"a rank is a {rank.upper() if rank == 'sip' else rank} of a system", "leave out --rank")
    pes = system.cube.pes * (system.cubes if rank == "sip" else 1)
    tp = layout.tp * pes if type(layout.tp) is int else layout.tp
    return replace(layout, tp=tp, rank=rank, rank_pes=pes)


def check_layout(
    layout: Layout, model: Model, config: NpuConfig | SystemConfig, batch: int, layers: int, *, where: str = "kbsim llm",
    apart: bool = False,
) -> None:  # fmt: skip
    """Raises InputError if the numbers are not a layout of this model, machine and batch. `apart`: each PE is a separate
    machine."""
    for name in ("tp", "pp", "dp", "cp"):
        value = getattr(layout, name)
        if type(value) is not int or value < 1:
            raise InputError(Problem(where, "it must be an integer of at least 1", name, value))
    if layout.pp > layers:
        rule = f"{model.name} runs {layers} layers, and each stage of a pipeline needs one"
        raise InputError(Problem(where, rule, "pp", layout.pp, f"take at most --pp {layers}"))
    if layout.dp > batch:
        rule = f"each replica needs a sequence, and the batch has {batch}"
        raise InputError(Problem(where, rule, "dp", layout.dp, f"take --batch {layout.dp}, or a smaller --dp"))
    most = layout.replica(batch) // layout.sharers
    if type(layout.micro_batches) is not int or not 0 <= layout.micro_batches <= most:
        rule = f"a replica has {most} sequences, and each micro-batch needs one"
        remedy = f"take at most --micro-batches {most}, or a larger --batch"
        raise InputError(Problem(where, rule, "micro-batches", layout.micro_batches, remedy))
    if apart:
        return
    if layout.pes > config.pes:
        fits = larger(layout.pes)
        rule = f"{config.source} has {counted(config.pes, 'PE')}, and {layout.pes} are needed"
        raise InputError(Problem(where, rule, "layout", layout.text, f"use a larger machine: {fits}" if fits else "use fewer"))


def cut_layers(model: Model, precision: Precision, layers: int, layout: Layout, *, by_memory: bool = False) -> list[Stage]:
    """The stages: runs of neighbouring layers, with the smallest possible number of weights in the largest stage.

    `by_memory`: the embedding counts too; it takes space but no time, and each shard has all of it.
    """
    costs = layer_bits(model, precision, layers)
    width = model.shape.hidden * model.vocab
    head = width * precision.role("embedding" if model.tied else "lm_head")
    first = width * precision.role("embedding") * layout.tp if by_memory else 0
    cuts = least_largest(costs, layout.pp, first, head)
    begins = [0, *accumulate(cuts)]
    return [Stage(begins[i], count, i == 0, i == layout.pp - 1) for i, count in enumerate(cuts)]


def layer_bits(model: Model, precision: Precision, layers: int) -> list[int]:
    """[bit] The weights of each of the first layers."""
    found: list[int] = []
    known: dict[object, int] = {}
    for layer in range(layers):
        shape = model.layer(layer, precision)
        block = model.description.blocks[layer] if model.description is not None else None
        key = shape, block
        if key not in known:
            if model.description is not None and block is not None:
                named = dict(shape.matrix_bits)
                weights = block.weights(model.description.hidden)
                known[key] = sum(one.elements * named.get(one.name, shape.weight_bits) for one in weights)
            else:
                known[key] = sum(one.rows * one.cols * one.experts * one.bits for one in shape.matrices)
        found.append(known[key])
    return found


def expert_bits(model: Model, precision: Precision, layers: int) -> list[int]:
    """[bit] The experts of each of the first layers."""
    assert model.description is not None
    found = []
    for layer in range(layers):
        block, shape = model.description.blocks[layer], model.layer(layer, precision)
        ffn, named = block.ffn, dict(shape.matrix_bits)
        matrices = ffn.expert.weights(model.description.hidden) if isinstance(ffn, Experts) else ()
        count = ffn.count if isinstance(ffn, Experts) else 0
        found.append(count * sum(one.elements * named.get(one.name, shape.weight_bits) for one in matrices))
    return found


def least_largest(costs: Sequence[int], parts: int, first: int = 0, last: int = 0) -> list[int]:
    """The number of neighbouring costs in each of `parts` parts, such that no part is empty and the largest sum is minimal.

    `first`, `last`: additional costs of the first and the last part. Of several optimal cuts, the one with the largest later
    parts.
    """
    low, high = 0, sum(costs) + first + last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _filled(costs, parts, first, last, middle) else (middle + 1, high)
    found = _filled(costs, parts, first, last, low)
    assert found is not None
    return found


def _filled(costs: Sequence[int], parts: int, first: int, last: int, most: int) -> list[int] | None:
    """Parts whose sums do not exceed this limit, each as full as possible from the last one on; None if there are none."""
    found: list[int] = []
    end = len(costs)
    for part in range(parts - 1, -1, -1):
        total = (last if part == parts - 1 else 0) + (first if part == 0 else 0)
        begin = end
        while begin > part and total + costs[begin - 1] <= most:
            begin -= 1
            total += costs[begin]
        if begin == end or (part == 0 and begin):
            return None
        found.append(end - begin)
        end = begin
    return found[::-1]
