"""The kernels of models whose code runs module by module, such as those of PyTorch in eager mode.

Each function of a module is a kernel, which reads its operands from memory and writes its result there. Which functions
modules consist of is data of the runtime profile (`ModuleCode`). Queries, keys and values are products of their own, and so are
gate and up projection. An expert is a network of its own, for the tokens that have chosen it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from kernbench.config.runtime import Kernels, ModuleCode, Runtime
from kernbench.workloads.models.parts import Attention as AttentionPart
from kernbench.workloads.models.parts import Block, Experts, LatentAttention, Mlp, Norm
from kernbench.workloads.ops.blocks import StepKernels, Widths
from kernbench.workloads.ops.operation import Attention, Operation, Product, Sequences, Vector

Counted = Iterator[tuple[Operation, int]]


@dataclass(frozen=True, slots=True)
class ModuleKernels(StepKernels):
    """The kernels of a step on one of `tp` chips, by the code of the modules."""

    code: ModuleCode = field(default_factory=ModuleCode)

    def ends(self, vocab: int, norm: Norm | None) -> Counted:
        """The embedding and the tables of a step, the last norm, the LM head, and the choice of the next tokens."""
        yield from self._each(self.code.inputs, self.tokens, self.hidden)
        if norm is not None:
            yield from self._norm(self.hidden, 2, norm.kind)
        for op, times in StepKernels.ends(self, vocab, norm):
            yield op, times
            assert isinstance(op, Product)
            yield from self._each(self.code.logits, op.m, op.n)

    def _norm(self, across: int, moved: float, kind: str = "rmsnorm") -> Counted:
        if kind == "layernorm":
            yield self._vector("layernorm", "norm", across, 2, 4), 1
        else:
            yield from self._each(self.code.norm, self.tokens, across)

    def _residual(self, block: Block) -> Counted:
        for op, times in self._each(self.code.residual, self.tokens, self.hidden):
            yield op, times * len(block.parts)

    def _inputs(self, queries: int, keys: int) -> Counted:
        yield self._product(queries, self.hidden), 1
        yield self._product(keys, self.hidden), 2

    def _rotary(self, queries: int, keys: int) -> Counted:
        for across in (queries, keys):
            yield from self._each(self.code.rotary, self.tokens, across)

    def _attend(self, part: AttentionPart, heads: int, kv_heads: int) -> Counted:
        yield from self._cached(heads, kv_heads, part.head_dim)
        if self.code.attention == "fused":
            yield from StepKernels._attend(self, part, heads, kv_heads)
        else:
            yield from self._scored(heads, part.head_dim, part.head_dim)

    def _latent(self, part: LatentAttention) -> Counted:
        """Keys and values of each head are expanded from the latent vectors of new tokens, and kept."""
        heads, dim = self._heads(part.heads), part.nope_dim + part.rope_dim
        if part.q_rank:
            yield self._product(part.q_rank, self.hidden), 1
            yield from self._norm(part.q_rank, 2)
        yield self._product(heads * dim, part.q_rank or self.hidden), 1
        yield self._product(part.kv_rank + part.rope_dim, self.hidden), 1
        yield from self._norm(part.kv_rank, 2)
        yield self._product(heads * (part.nope_dim + part.value_dim), part.kv_rank), 1
        yield from self._rotary(heads * part.rope_dim, part.rope_dim)
        yield from self._cached(heads, heads, (dim + part.value_dim) // 2)
        if self.code.attention == "fused":
            yield Attention(self.groups, heads, heads, (dim + part.value_dim) // 2, self.widths.cache), 1
        else:
            yield from self._scored(heads, dim, part.value_dim)
        yield self._product(self.hidden, heads * part.value_dim), 1

    def _cached(self, heads: int, kv_heads: int, dim: int) -> Counted:
        """Keys and values are joined to those in the cache, and repeated for the heads that share them."""
        keys = sum(one.count * (one.cached + one.new) for one in self.groups)
        for op, times in self._each(self.code.cache, keys, kv_heads * dim, self.widths.cache):
            yield op, 2 * times
        if heads > kv_heads:
            for op, times in self._each(self.code.repeat, keys, heads * dim, self.widths.cache):
                yield op, 2 * times

    def _scored(self, heads: int, depth: int, value_depth: int) -> Counted:
        """All scores are computed, also those that a mask hides."""
        element = self.widths.activation_bits / 8
        for one in self.groups:
            keys, count = one.cached + one.new, one.count * heads
            bits = self.widths.activation_bits
            yield Product(one.new, keys, depth, element, self.widths.cache, element, bits, count, "bmm"), 1
            yield from self._each(self.code.scores, one.new * count, keys)
            yield Product(one.new, value_depth, keys, element, self.widths.cache, element, bits, count, "bmm"), 1
        yield from self._each(self.code.output, self.tokens, heads * value_depth)

    def _experts(self, part: Experts) -> Counted:
        yield self._product(part.count, self.hidden), 1
        yield from self._each(self.code.router, self.tokens, part.count)
        used = self._used(part)
        rows = ceil(self.tokens * part.top_k / used)
        for op, times in self._each(self.code.expert, rows, self.hidden):
            yield op, times * used
        for op, times in self._mlp(part.expert, rows, 1):
            yield op, times * used
        if part.shared is not None:
            yield from self._mlp(part.shared, self.tokens, 1)
            yield from self._each(self.code.residual, self.tokens, self.hidden)

    def _mlp(self, part: Mlp, rows: int, copies: int) -> Counted:
        width = ceil(part.width / self.tp)
        yield self._product(width, self.hidden, rows), 2 if part.gated else 1
        yield from self._each(self.code.activation, rows, width)
        if part.gated:
            yield from self._each(self.code.gate, rows, width)
        yield self._product(self.hidden, width, rows), 1

    def _each(self, kernels: Kernels, rows: int, width: int, element: float = 2.0) -> Counted:
        """Kernels over rows of a width, whose elements have `element` bytes."""
        for name, nbytes in kernels:
            elements = rows * width
            yield Vector(name, "elementwise", rows, width, float(nbytes) * element / 2 * elements, float(elements)), 1


def step_kernels(
    runtime: Runtime, hidden: int, groups: tuple[Sequences, ...], widths: Widths, tp: int = 1, parts: int = 0
) -> StepKernels:
    """The kernels of a step under a runtime profile; the other parameters are those of `StepKernels`."""
    if runtime.modules is None:
        return StepKernels(hidden, groups, widths, tp, parts)
    return ModuleKernels(hidden, groups, widths, tp, parts, runtime.modules)
