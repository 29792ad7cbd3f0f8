"""The core operators of ATen in the operators of a graph: one rule each, or a refusal by name."""

from kernbench.workloads.graphs.torch.aten import (
    elementwise,
    filled,
    moves,
    norms,
    positions,
    products,
    reductions,
    windows,
)
from kernbench.workloads.graphs.torch.aten.rules import REFUSED, CannotTranslate, refusal_of, rule_of

__all__ = ["REFUSED", "SUBJECTS", "CannotTranslate", "refusal_of", "rule_of"]

SUBJECTS = (elementwise, reductions, norms, products, windows, moves, positions, filled)  #: their imports register the rules
