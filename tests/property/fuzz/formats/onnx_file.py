"""ONNX models: protobuf messages, changed field by field."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.onnx_models import Builder, cached_attention, mlp, moves, resnet_block, transformer_block
from tests.property.fuzz.bases import CYCLES
from tests.property.fuzz.case import Case
from tests.property.fuzz.trees import bytes_changed
from tests.property.fuzz.values import integer_near, text_near

LIMIT = ("--set", f"max_cycles={CYCLES}")


def small_conv() -> Builder:
    """Convolutions of one and two dimensions, grouped and depthwise, with pooling between."""
    b = Builder()
    x = b.input("x", 1, 4, 6, 6)
    y = b.node("Conv", x, b.weight("w", 8, 4, 3, 3), b.weight("bias", 8), name="conv", pads=[1, 1, 1, 1], strides=[2, 2])
    y = b.node("MaxPool", y, name="pool", kernel_shape=[2, 2])
    y = b.node("Conv", y, b.weight("dw", 8, 1, 2, 2), name="depthwise", group=8)
    b.output(b.node("GlobalAveragePool", y, name="mean"))
    line = b.node("Conv", b.input("line", 1, 4, 9), b.weight("lw", 4, 1, 3), name="line_conv", group=4)
    b.output(b.node("Flatten", line, name="flat"))
    return b


class OnnxFormat:
    """ONNX models on `npu_mobile`."""

    name = "onnx"

    def __init__(self, number: int, count: int) -> None:
        block = ("--dim", "batch=1", "--dim", "seq=4")
        builders = [(mlp(), ()), (mlp("batch"), block[:2]), (moves(), ()), (cached_attention(), ()), (small_conv(), ())]
        builders += [(transformer_block(), block), (transformer_block(True), block)]
        if count > 4:
            builders.append((resnet_block(), ("--dim", "n=1")))
        self.bases = [(builder.model().SerializeToString(), dims) for builder, dims in builders]

    def sound(self) -> list[Case]:
        """Every model, whole where it can be lowered."""
        return [Case(self._command(*dims, "--partial"), {"m.onnx": data}) for data, dims in self.bases]

    def _command(self, *more: str) -> tuple[str, ...]:
        return ("onnx", "m.onnx", "--config", "npu_mobile", *LIMIT, *more)

    def mutated(self, rng: Random) -> Case:
        """A model with other fields, or other bytes."""
        import onnx

        data, dims = rng.choice(self.bases)
        if rng.random() < 0.88:
            model = onnx.load_model_from_string(data)
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                change_message(rng, model)
            try:
                data = model.SerializeToString()
            except ValueError:  # text that no message may hold
                data = bytes_changed(rng, data)
        else:
            data = bytes_changed(rng, data)
        more = rng.choice(
            ((), ("--partial",), ("--partial", "--json"), ("--emit", "p.json"), ("--partial", "--live-map", "l.svg"))
        )
        return Case(self._command(*dims, *more), {"m.onnx": data})

    def readers(self) -> list[tuple[Case, str]]:
        """The one reader."""
        return [(Case(self._command(), {"m.onnx": self.bases[0][0]}), "m.onnx")]


def fields_of(message: Any) -> list[tuple[Any, Any]]:
    """Every (message, field) that is set, all the way down."""
    found, stack = [], [message]
    while stack:
        one = stack.pop()
        for field, value in one.ListFields():
            found.append((one, field))
            if field.type == field.TYPE_MESSAGE:
                stack += list(value) if _repeated(field) else [value]
    return found


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def change_message(rng: Random, message: Any) -> None:
    """Change one field: another value, none, one from a like field elsewhere, swapped, doubled, or another field of a oneof."""
    found = fields_of(message)
    holder, field = rng.choice(found)
    way = rng.randrange(12)
    if way == 0:
        holder.ClearField(field.name)
    elif way == 1:  # a field that is not set, and may be one that the type of the message must not have
        other = rng.choice(holder.DESCRIPTOR.fields)
        _set_any(rng, holder, other)
    elif way == 2:
        like = [(h, f) for h, f in found if f.full_name == field.full_name and h is not holder]
        if like:
            source, _ = rng.choice(like)
            holder.ClearField(field.name)
            _copy(holder, source, field)
    elif _repeated(field):
        _change_list(rng, holder, field)
    elif field.type == field.TYPE_MESSAGE:
        holder.ClearField(field.name)
    else:
        _set(rng, holder, field, getattr(holder, field.name))


def _copy(holder: Any, source: Any, field: Any) -> None:
    value = getattr(source, field.name)
    if _repeated(field):
        getattr(holder, field.name).MergeFrom(value)
    elif field.type == field.TYPE_MESSAGE:
        getattr(holder, field.name).CopyFrom(value)
    else:
        setattr(holder, field.name, value)


def _change_list(rng: Random, holder: Any, field: Any) -> None:
    values = getattr(holder, field.name)
    kept = list(values)
    at = rng.randrange(len(kept))
    way = rng.randrange(5)
    if field.type == field.TYPE_MESSAGE:
        copies = [type(one).FromString(one.SerializePartialToString()) for one in kept]
    else:
        copies = kept
    if way == 0:
        del copies[at]
    elif way == 1:
        copies.insert(at, copies[rng.randrange(len(copies))])
    elif way == 2:
        near = (at + 1) % len(copies)
        copies[at], copies[near] = copies[near], copies[at]
    elif way == 3 and len(copies) < 50:
        copies += copies * rng.choice((1, 10))
    elif field.type == field.TYPE_MESSAGE:
        change_message(rng, values[at]) if values[at].ListFields() else None
        return
    else:
        copies[at] = _value(rng, field, copies[at])
    try:
        holder.ClearField(field.name)
        getattr(holder, field.name).extend(copies)
    except (ValueError, TypeError):  # of no such type
        holder.ClearField(field.name)


def _value(rng: Random, field: Any, was: Any) -> Any:
    if isinstance(was, str):
        return text_near(rng, was).encode("utf-8", "ignore").decode()
    if isinstance(was, bytes):
        return bytes_changed(rng, was)
    if isinstance(was, float):
        return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), was * 2))
    value = rng.choice((integer_near(rng, was), rng.randint(-2, 24)))
    narrow = field.type in (field.TYPE_INT32, field.TYPE_ENUM, field.TYPE_SINT32)
    bits = 31 if narrow else 63
    return max(-(2**bits), min(2**bits - 1, value)) if field.type != field.TYPE_UINT64 else abs(value) % 2**64


def _set(rng: Random, holder: Any, field: Any, was: Any) -> None:
    try:
        setattr(holder, field.name, _value(rng, field, was))
    except (ValueError, TypeError):  # an enum that does not know it
        holder.ClearField(field.name)


def _set_any(rng: Random, holder: Any, field: Any) -> None:
    if field.type == field.TYPE_MESSAGE:
        if _repeated(field):
            getattr(holder, field.name).add()
        else:
            getattr(holder, field.name).SetInParent()
    elif _repeated(field):
        like = {field.TYPE_STRING: "x", field.TYPE_BYTES: b"x", field.TYPE_FLOAT: 1.0, field.TYPE_DOUBLE: 1.0}.get(
            field.type, 1
        )
        getattr(holder, field.name).append(like)
    else:
        _set(rng, holder, field, getattr(holder, field.name))
