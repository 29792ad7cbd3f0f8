"""The table of rules, which the modules of this package fill, and the operators that are refused.

A rule is given the arguments of an operator by their names in its schema, and makes nodes whose last ones write the outputs.
Operators that a graph does not have are written out in others: a variance is two means, a difference and a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

Names = Sequence[str]
Rule = Callable[["Maker", dict[str, Any], Names], None]
RULES: dict[str, Rule] = {}  #: by the operator's name without `aten.`: of one overload, or of all
_GRADIENT = "it computes a gradient, and only inference is lowered"
_RANDOM = "it makes random numbers, and no engine has a generator"
UNBOUNDED = "the size of its result depends on values"
_SPECTRUM = "its elements are complex numbers, and no engine has them"
_FAST_PATH = "it hides the operators of a layer; torch.backends.mha.set_fastpath_enabled(False) shows them"
_CONTROL = "which branch or how many iterations run depends on values; export a module with a fixed choice"
_VIEW_OF_NUMBERS = "it reads a number that depends on values"
#: Operators that are not lowered, and why.
REFUSED: dict[str, str] = {
    **dict.fromkeys((
        "_adaptive_avg_pool2d_backward", "avg_pool2d_backward", "convolution_backward", "embedding_dense_backward",
        "max_pool2d_with_indices_backward", "native_group_norm_backward", "native_layer_norm_backward",
    ), _GRADIENT),
    **dict.fromkeys(("rand", "randn", "randperm"), _RANDOM),
    **dict.fromkeys(("nonzero", "masked_scatter"), UNBOUNDED),
    **dict.fromkeys(("_fft_c2r", "_fft_r2c"), _SPECTRUM),
    **dict.fromkeys(("cond", "while_loop"), _CONTROL),
    **dict.fromkeys(("_local_scalar_dense", "sym_storage_offset", "sym_stride"), _VIEW_OF_NUMBERS),
    **dict.fromkeys(("_transformer_encoder_layer_fwd", "_native_multi_head_attention"), _FAST_PATH),
    "resize_": "it changes the size of a tensor in place, and its new elements have no defined values",
    "_cdist_forward": "there is no lowering of distances between all pairs of rows",
    "_pdist_forward": "there is no lowering of distances between all pairs of rows",
    "_embedding_bag": "the bags that its offsets make have no fixed length",
}  # fmt: skip


class CannotTranslate(Exception):
    """An operator, or this use of it, has no translation; the text says why."""


class Maker(Protocol):
    """A graph in the making, as rules see it. A tensor argument is its name."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""

    def kind(self, name: str) -> str:
        """The numpy name of a tensor's elements."""

    def constant(self, value: Any, kind: str = "int64") -> str:
        """A tensor of known values."""

    def value(self, name: str) -> np.ndarray[Any, Any] | None:
        """The values of a tensor, where they are known."""

    def node(
        self,
        op: str,
        *inputs: str,
        out: str | Names = "",
        shape: Sequence[int] | None = None,
        kind: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """A node; its first output. Of an output without a name: `shape`, by default that of all inputs together."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register a function as the lowering rule of operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def rule_of(name: str) -> Rule | None:
    """The rule of an operator, by `aten.add.Tensor`; None if there is none."""
    bare = name.removeprefix("aten.")
    return RULES.get(bare) or RULES.get(bare.rpartition(".")[0])


def refusal_of(name: str) -> str:
    """Why an operator is refused; empty if it is not."""
    bare = name.removeprefix("aten.")
    return REFUSED.get(bare) or REFUSED.get(bare.rpartition(".")[0], "")
