"""The bits that a `config.json` states: those of tensors, and those of its quantisation method."""

from __future__ import annotations

from typing import Any

from kernbench.config.places import PathLike
from kernbench.workloads.models.keys import Keys
from kernbench.workloads.models.precision import Scales, StatedBits

_DTYPES = {
    "float32": 32, "float": 32, "float16": 16, "half": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8, "int8": 8,
}  # fmt: skip
_WIDTHS = (1, 2, 4, 8, 16, 32)
_SECTION = "quantization_config"
_METHODS = "gptq, awq, bitsandbytes, fp8, mxfp4, compressed-tensors"
#: Matrices that mxfp4 quantises: the matrices of experts.
_EXPERTS = ("w_gate", "w_up", "w_down")
#: Matrices that these methods do not quantise.
_LEFT = ("lm_head", "embedding")


def stated_bits(keys: Keys) -> StatedBits:
    """The bits; entries that are not supported are noted by name, and not used. Raises InputError for a value of the wrong
    type."""
    wide = _dtype(keys)
    section = keys.get(_SECTION, {})
    if not isinstance(section, dict):
        raise keys.refuse((_SECTION,), "it must be a mapping", section)
    if not section:
        return StatedBits(w=wide, a=wide, kv=wide)
    if section.get("quant_method") == "mxfp4":
        scales = Scales(32, 8)  # the microscaling formats of OCP: a scale of 8 bits for 32 elements
        return StatedBits(w=wide, a=wide, kv=wide, roles=tuple((name, 4) for name in _EXPERTS), scales=scales)
    w, a, kv = _quantised(keys, section)
    if w is None:
        return StatedBits(w=wide, a=wide, kv=wide)
    left = tuple((name, wide) for name in _LEFT if wide is not None and w != wide)
    return StatedBits(w=w, a=a or wide, kv=kv or wide, roles=left, scales=_scales(keys, section, w))


def _dtype(keys: Keys) -> int | None:
    """The bits of tensors that are not quantised."""
    for name in ("dtype", "torch_dtype"):
        value = keys.get(name)
        if value is None or value == "auto":
            continue
        if isinstance(value, str) and value.removeprefix("torch.") in _DTYPES:
            keys.get("torch_dtype")
            return _DTYPES[value.removeprefix("torch.")]
        keys.note((name,), f"it is not used; it may be one of {', '.join(_DTYPES)}", value, "give --w, --a and --kv")
    return None


def _quantised(keys: Keys, section: dict[Any, Any]) -> tuple[int | None, int | None, int | None]:
    """Bits of weights, activations and the KV cache, if the method states them."""
    method = section.get("quant_method")
    if method == "bitsandbytes" or (method is None and ("load_in_4bit" in section or "load_in_8bit" in section)):
        for name, bits in (("load_in_4bit", 4), ("load_in_8bit", 8)):
            if _flag(keys, section, name):
                return bits, None, None
        return None, None, None
    if method == "fp8":
        return 8, 8, None
    if method in ("gptq", "awq"):
        name = "bits" if "bits" in section else "w_bit"
        return _bits(keys, (_SECTION, name), section.get(name)), None, None
    if method == "compressed-tensors":
        return _compressed(keys, section)
    rule = f"it is not used; the methods that are known: {_METHODS}"
    keys.note((_SECTION, "quant_method"), rule, method, "give --w")
    return None, None, None


def _scales(keys: Keys, section: dict[Any, Any], w: int) -> Scales | None:
    """The scales and zeros that the file states; None if it states none, or one for a whole tensor."""
    method = section.get("quant_method")
    if method in ("gptq", "awq") and "group_size" in section:
        rows = _group(keys, (_SECTION, "group_size"), section["group_size"])
        zero = w if method == "gptq" or section.get("zero_point", True) else 0
        return Scales(rows, 16 + zero, weight_bits=w)
    if method == "fp8" and section.get("weight_block_size") is not None:
        block = section["weight_block_size"]
        if not (isinstance(block, list) and len(block) == 2 and all(type(one) is int and one > 0 for one in block)):
            raise keys.refuse((_SECTION, "weight_block_size"), "it must be two positive integers", block)
        return Scales(block[0], 32, block[1], weight_bits=w)
    if method == "bitsandbytes" and w == 4 and "bnb_4bit_use_double_quant" in section:
        return Scales(64, 8 if _flag(keys, section, "bnb_4bit_use_double_quant") else 32, weight_bits=w)
    if method == "compressed-tensors":
        parts = [group.get("weights") for group in section["config_groups"].values() if isinstance(group, dict)]
        weights = next((part for part in parts if isinstance(part, dict)), {})
        zero = 0 if weights.get("symmetric", True) else w
        if weights.get("strategy") == "group":
            rows = _group(keys, (_SECTION, "config_groups"), weights.get("group_size"))
            return Scales(rows, 16 + zero, weight_bits=w)
        return Scales(0, 16 + zero, weight_bits=w) if weights.get("strategy") == "channel" else None
    return None


def _group(keys: Keys, path: PathLike, value: Any) -> int:
    """Weights of a group; 0 for a whole column."""
    if type(value) is not int or (value < 1 and value != -1):
        raise keys.refuse(path, "the size of a group must be a positive integer, or -1 for a whole column", value)
    return max(0, value)


def _flag(keys: Keys, section: dict[Any, Any], name: str) -> bool:
    value = section.get(name)
    if value is not None and not isinstance(value, bool):
        raise keys.refuse((_SECTION, name), "it must be true or false", value)
    return bool(value)


def _bits(keys: Keys, path: PathLike, value: Any) -> int | None:
    """A number of bits; None for a width that elements cannot have."""
    if type(value) is int and value in _WIDTHS:
        return value
    keys.note(path, f"it is not used; it may be one of {', '.join(map(str, _WIDTHS))}", value, "give --w, --a or --kv")
    return None


def _compressed(keys: Keys, section: dict[Any, Any]) -> tuple[int | None, int | None, int | None]:
    """Groups of layers, each with its bits; several that differ are noted, and not used."""
    groups = section.get("config_groups")
    if not isinstance(groups, dict):
        raise keys.refuse((_SECTION, "config_groups"), "it must be a mapping", groups)
    weights = _of_groups(keys, groups, "weights")
    scheme, kv = section.get("kv_cache_scheme"), None
    if isinstance(scheme, dict):
        kv = _bits(keys, (_SECTION, "kv_cache_scheme", "num_bits"), scheme.get("num_bits"))
    return weights, _of_groups(keys, groups, "input_activations"), kv


def _of_groups(keys: Keys, groups: dict[Any, Any], what: str) -> int | None:
    """The common bits of all groups, or None."""
    found = set[int | None]()
    for name, group in groups.items():
        part = group.get(what) if isinstance(group, dict) else None
        if isinstance(part, dict):
            found.add(_bits(keys, (_SECTION, "config_groups", name, what, "num_bits"), part.get("num_bits")))
    if len(found) > 1:
        rule = f"its groups have {what} of different bits, which are not used"
        keys.note((_SECTION, "config_groups"), rule, remedy="give --policy")
        return None
    return next(iter(found), None)
