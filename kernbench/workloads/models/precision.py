"""Bits by role, layer and head, and the YAML file that states them.

    w: 4                                 # weights of all matrices
    a: 8                                 # activations
    kv: 4                                # K and V
    roles: {lm_head: 8, w_down: 8}       # single matrices; also embedding
    layers:
      - {layers: [0, 31], w: 8, kv: 8}   # the same keys for some layers; the last one that fits holds
      - layers: [1]
        heads: [{kv_head: 0, w: 8, kv: 8}]   # K, V and the query, key and value columns of one key and value head
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.document import Document, read_document
from kernbench.config.places import KEY, PathLike
from kernbench.workloads.models import HeadBits, ModelShape

MATRICES = ("wq", "wk", "wv", "wo", "router", "w_gate", "w_up", "w_down")  #: roles of a layer
ROLES = (*MATRICES, "lm_head", "embedding")
POLICY_BYTES = 1 << 20
_RULE = {
    "extra_forbidden": "there is no such key",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a mapping",
    "model_type": "it must be a mapping",
    "int_type": "it must be an integer",
    "greater_than_equal": "it must be an integer of at least 0",
    "literal_error": "it must be one of 1, 2, 4, 8, 16, 32, 64",
}

_KV_RULE = "it must be one of 1, 2, 3, 4, 5, 6, 8, 16, 32, 64"

Bits = Literal[1, 2, 4, 8, 16, 32, 64]
KvBits = Literal[1, 2, 3, 4, 5, 6, 8, 16, 32, 64]
Number = Annotated[int, Field(ge=0, strict=True)]
Role = Literal["wq", "wk", "wv", "wo", "router", "w_gate", "w_up", "w_down", "lm_head", "embedding"]
LayerRole = Literal["wq", "wk", "wv", "wo", "router", "w_gate", "w_up", "w_down"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HeadPolicy(_Section):
    """One key and value head, with its query heads."""

    kv_head: Number
    w: Bits | None = None
    kv: KvBits | None = None


class LayerPolicy(_Section):
    """Values for some layers only."""

    layers: tuple[Number, ...]
    w: Bits | None = None
    a: Bits | None = None
    kv: KvBits | None = None
    roles: dict[LayerRole, Bits] = {}
    heads: tuple[HeadPolicy, ...] = ()


class Precision(_Section):
    """The bits of all roles. Made by `load_precision`, or from numbers."""

    w: Bits = 4
    a: Bits = 8
    kv: KvBits = 4
    roles: dict[Role, Bits] = {}
    layers: tuple[LayerPolicy, ...] = ()

    def check_layers(self, layers: int, model: str) -> None:
        """Raises InputError if the policy names a layer that the model does not have."""
        for policy in self.layers:
            for layer in policy.layers:
                if layer >= layers:
                    rule = f"{model} has {layers} layers, from 0 on"
                    raise InputError(Problem("precision", rule, "layers", layer))

    def role(self, name: str) -> int:
        """The bits of `lm_head` and `embedding`, and the default bits of a matrix."""
        return dict(self.roles).get(name, self.w)  # type: ignore[call-overload,no-any-return]

    def applied(self, shape: ModelShape, layer: int) -> ModelShape:
        """A layer with its bits; raises InputError if the policy names a head that the layer does not have."""
        bits = _Bits(self.w, self.a, self.kv, {name: b for name, b in self.roles.items() if name in MATRICES})
        heads: tuple[HeadBits, ...] = ()
        for policy in self.layers:
            if layer in policy.layers:
                bits = bits.changed(policy)
                heads = tuple(HeadBits(head.kv_head, head.w, head.kv) for head in policy.heads) or heads
        for head in heads:
            if head.kv_head >= shape.kv_heads:
                rule = f"{shape.name} has {shape.kv_heads} key and value heads, from 0 on"
                raise InputError(Problem("precision", rule, f"heads of layer {layer}: kv_head", head.kv_head))
        return replace(
            shape,
            weight_bits=bits.w,
            activation_bits=bits.a,
            kv_bits=bits.kv,
            matrix_bits=tuple(sorted(bits.roles.items())),
            head_bits=heads,
        )


@dataclass(frozen=True, slots=True)
class _Bits:
    w: int
    a: int
    kv: int
    roles: dict[Any, int]

    def changed(self, policy: LayerPolicy) -> _Bits:
        """The `w` of a policy applies to all matrices that its own `roles` do not name."""
        before = {} if policy.w else self.roles
        return _Bits(policy.w or self.w, policy.a or self.a, policy.kv or self.kv, {**before, **policy.roles})


@dataclass(frozen=True, slots=True)
class Scales:
    """Scales and zeros that a quantisation method stores in addition to weights, for each block of rows and columns of a
    matrix."""

    rows: int  #: weights of a column in a block; 0 for all
    bits: int  #: bits of the scale and the zero of a block
    cols: int = 1  #: columns of a block
    weight_bits: int = 4  #: bits of the weights of matrices with scales

    def elements(self, rows: int) -> int:
        """The additional elements of a column with this number of weights, in elements of the width of its weights, rounded
        up."""
        blocks = ceil_div(rows, self.rows) if self.rows else 1
        return ceil_div(blocks * self.bits, self.cols * self.weight_bits)


@dataclass(frozen=True, slots=True)
class StatedBits:
    """Bits from the file of the model, which are used if the user gives none."""

    w: int | None = None
    a: int | None = None
    kv: int | None = None
    roles: tuple[tuple[str, int], ...] = ()  #: bits of single matrices, used if `w` is not given
    scales: Scales | None = None  #: scales of matrices with `weight_bits` bits, used if `w` is not given

    def under(self, given: dict[str, Any]) -> dict[str, Any]:
        """The given values, and the rest from this object."""
        found = {name: bits for name in ("w", "a", "kv") if (bits := getattr(self, name)) is not None} | given
        if self.roles and "w" not in given and isinstance(roles := given.get("roles", {}), dict):
            found["roles"] = dict(self.roles) | roles
        return found


NOTHING_STATED = StatedBits()


def load_precision(path: str | os.PathLike[str], stated: StatedBits = NOTHING_STATED, **bits: int | None) -> Precision:
    """The policy of a YAML or JSON file. `bits`: given values of `w`, `a` and `kv` have priority over the file; `stated`: the
    file has priority over these values.

    Raises InputError that names the file, line, field, value and rule.
    """
    document = read_document(path, POLICY_BYTES)
    given = {**document.data, **{name: value for name, value in bits.items() if value is not None}}
    return _checked(document, stated.under(given))


def uniform_precision(stated: StatedBits = NOTHING_STATED, **bits: int | None) -> Precision:
    """The same bits everywhere, or those `stated` by the model if none are given. Raises InputError for a width that elements
    cannot have.
    """
    given = {name: value for name, value in bits.items() if value is not None}
    return _checked(Document("precision", given, None, ""), stated.under(given))


def _checked(document: Document, data: dict[str, Any]) -> Precision:
    try:
        return Precision.model_validate(data)
    except ValidationError as error:
        found: list[tuple[PathLike, str, Any, str]] = []
        for item in error.errors(include_url=False):
            path = tuple(step for step in item["loc"] if step != "[key]")
            if item["type"] == "extra_forbidden" or item["loc"][-1] == "[key]":
                remedy = f"the roles are {', '.join(ROLES)}" if item["loc"][-1] == "[key]" else ""
                found.append(((*path, KEY), "there is no such key", ABSENT, remedy))
            else:
                rule = _RULE.get(item["type"], item["msg"])
                rule = _KV_RULE if item["type"] == "literal_error" and path[-1] == "kv" else rule
                found.append((path, rule, item["input"], ""))
        raise InputError(document.problems(found)) from None
