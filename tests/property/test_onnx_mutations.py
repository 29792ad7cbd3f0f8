"""Damaged ONNX files: whatever is done to one, `kbsim onnx` runs or refuses it, soon and in little memory."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mutation_runs import Tally, commands, run_forked
from tests.property.onnx_zoo import DIMS, MODELS

onnx = pytest.importorskip("onnx")
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]  # noqa: E402

INTEGERS = (0, 1, -1, 2, 3, 7, 100, 2**15, 2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63))
NUMBERS = (0.0, -1.0, 0.5, 1e30, float("inf"), float("nan"))
TEXTS = ("", "x", "y", "\0", "no such name", "a" * 5000, "../../../etc/passwd", "/dev/zero", "é\u202e\n", "SAME_UPPER", "axis")
OPERATORS = sorted({node.op_type for make in MODELS.values() for node in make().graph.node})
ATTRIBUTES = (
    "axis", "axes", "perm", "strides", "pads", "dilations", "kernel_shape", "group", "auto_pad", "mode", "blocksize", "to",
    "alpha", "transA", "transB", "epsilon", "num_groups", "q_num_heads", "kv_num_heads", "keepdims", "softcap", "value",
)  # fmt: skip
Model = Any


def parts_of(message: Any) -> Iterator[Any]:
    """A message and all that it holds, in order."""
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield from parts_of(part)


def set_field(rng: random.Random, message: Any, field: Any, names: list[str]) -> None:
    """Another value in a field that is no message."""
    kinds: dict[int, Callable[[], Any]] = {
        FieldDescriptor.TYPE_STRING: lambda: rng.choice((*names, *TEXTS)),
        FieldDescriptor.TYPE_BYTES: lambda: rng.choice((b"", b"\xff" * 7, rng.randbytes(64), b"SAME_LOWER", b"linear")),
        FieldDescriptor.TYPE_FLOAT: lambda: rng.choice(NUMBERS),
        FieldDescriptor.TYPE_DOUBLE: lambda: rng.choice(NUMBERS),
        FieldDescriptor.TYPE_ENUM: lambda: rng.choice(list(field.enum_type.values)).number,
        FieldDescriptor.TYPE_INT32: lambda: rng.choice([n for n in INTEGERS if abs(n) < 2**31] + list(range(1, 30))),
        FieldDescriptor.TYPE_UINT64: lambda: abs(rng.choice(INTEGERS)),
        FieldDescriptor.TYPE_INT64: lambda: rng.choice(INTEGERS),
    }
    made = kinds[field.type]
    if not field.is_repeated:
        setattr(message, field.name, made())
        return
    items = getattr(message, field.name)
    kind = rng.choice(("set", "append", "drop", "cut", "turn", "many"))
    if kind == "append" or not items:
        items.append(made())
    elif kind == "set":
        items[rng.randrange(len(items))] = made()
    elif kind == "drop":
        del items[rng.randrange(len(items))]
    elif kind == "cut":
        del items[rng.randrange(len(items)) :]
    elif kind == "turn":
        items[:] = rng.sample(list(items), len(items))
    else:
        items.extend([made()] * rng.choice((2, 9, 1000)))


def any_field(rng: random.Random, model: Model) -> None:
    """Some field of some message: deleted, changed, given where it was not, or as often again."""
    message = rng.choice(list(parts_of(model)))
    there = [field for field, _ in message.ListFields()]
    field = rng.choice(there if there and rng.random() < 0.8 else list(message.DESCRIPTOR.fields))
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        if rng.random() < 0.25:
            message.ClearField(field.name)
        else:
            set_field(rng, message, field, names_of(model))
    elif not field.is_repeated:
        if rng.random() < 0.5:
            message.ClearField(field.name)
        else:
            like = [part for part in parts_of(model) if part.DESCRIPTOR is field.message_type]
            if like and all(part is not message for part in like):
                getattr(message, field.name).CopyFrom(rng.choice(like))
            else:
                getattr(message, field.name).SetInParent()
    else:
        items = getattr(message, field.name)
        if not items or rng.random() < 0.2:
            items.add()
        elif rng.random() < 0.5:
            del items[rng.randrange(len(items))]
        else:
            copy = type(items[0])()
            copy.CopyFrom(rng.choice(items))
            items.insert(rng.randrange(len(items) + 1), copy)


def names_of(model: Model) -> list[str]:
    graph = model.graph
    found = {name for node in graph.node for name in (*node.input, *node.output)}
    return sorted(found | {item.name for item in (*graph.input, *graph.initializer)} | {"batch", "seq", "n"})


def edge(rng: random.Random, model: Model) -> None:
    """A node reads or writes another tensor: missing ones, its own, later ones."""
    node = rng.choice(model.graph.node or [model.graph.node.add()])
    names = node.input if rng.random() < 0.7 else node.output
    kind, name = rng.choice(("set", "append", "drop", "clear")), rng.choice((*names_of(model), "", "missing"))
    if kind == "append" or not names:
        names.append(name)
    elif kind == "set":
        names[rng.randrange(len(names))] = name
    elif kind == "drop":
        del names[rng.randrange(len(names))]
    else:
        del names[:]


def operator(rng: random.Random, model: Model) -> None:
    """A node is of another operator."""
    node = rng.choice(model.graph.node or [model.graph.node.add()])
    node.op_type = rng.choice((*OPERATORS, "", "Loop", "If", "Scan", "Einsum", "LSTM", "SequenceMap", "Optional", "Range"))
    if rng.random() < 0.2:
        node.domain = rng.choice(("com.microsoft", "ai.onnx", "ai.onnx.ml", "x", "\0"))


def attribute(rng: random.Random, model: Model) -> None:
    """An attribute more, of some type, or of another type than its value."""
    node = rng.choice(model.graph.node or [model.graph.node.add()])
    name = rng.choice((*ATTRIBUTES, *(item.name for item in node.attribute)))
    values: list[Any] = [1, -1, 0, 2**40, 1.5, float("nan"), "x", b"\xff", [1, 2], [-1], [2**40, 0], [0.5], ["a"]]
    for item in list(node.attribute):
        if item.name == name and rng.random() < 0.8:
            node.attribute.remove(item)
    item = onnx.helper.make_attribute(name, rng.choice(values))
    if rng.random() < 0.3:
        item.type = rng.choice(list(onnx.AttributeProto.AttributeType.values()))
    node.attribute.append(item)


def shape(rng: random.Random, model: Model) -> None:
    """Another size of a tensor of the file."""
    item = rng.choice([*model.graph.initializer, *model.graph.input])
    if hasattr(item, "dims"):
        set_field(rng, item, item.DESCRIPTOR.fields_by_name["dims"], [])
        return
    dims = item.type.tensor_type.shape.dim
    if dims and rng.random() < 0.8:
        dim = rng.choice(dims)
        if rng.random() < 0.7:
            dim.dim_value = rng.choice(INTEGERS)
        else:
            dim.dim_param = rng.choice(("batch", "n", "", "x" * 2000))
    else:
        dims.add().dim_value = rng.choice(INTEGERS)


def sizes(rng: random.Random, model: Model) -> None:
    """A plausible size in place of another, wherever that stands."""
    old, new = rng.choice((1, 2, 3, 4, 8, 16, 32, 64, 128)), rng.choice((1, 2, 3, 5, 8, 16, 24, 200, 3000))
    for item in model.graph.initializer:
        if old in item.dims and not item.int64_data and item.data_type == onnx.TensorProto.FLOAT:
            item.dims[:] = [new if dim == old else dim for dim in item.dims]
            item.raw_data = bytes(4 * max(0, min(1 << 22, int(onnx.numpy_helper.np.prod(item.dims)))))
    for item in model.graph.input:
        for dim in item.type.tensor_type.shape.dim:
            dim.dim_value = new if dim.dim_value == old else dim.dim_value


def own_attribute(rng: random.Random, model: Model) -> None:
    """Another number in an attribute that a node has, of the right type."""
    items = [item for node in model.graph.node for item in node.attribute if item.type in (2, 7)]
    item = rng.choice(items)
    small = (-9, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 32, 1000)
    if item.type == onnx.AttributeProto.INT:
        item.i = rng.choice((*small, *INTEGERS))
    else:
        item.ints[:] = [rng.choice(small) if rng.random() < 0.4 else value for value in item.ints]


def like(rng: random.Random, model: Model) -> None:
    """Another operator with as many inputs, without attributes."""
    node = rng.choice(model.graph.node)
    others = [other.op_type for other in model.graph.node if len(other.input) == len(node.input)]
    node.op_type = rng.choice((*others, *OPERATORS))
    if rng.random() < 0.7:
        del node.attribute[:]


def values(rng: random.Random, model: Model) -> None:
    """The content of a constant: cut, of another type, other numbers, or in some file."""
    items = [part for part in parts_of(model) if part.DESCRIPTOR.name == "TensorProto"]
    if not items:
        return
    small = [item for item in items if len(item.raw_data) < 200] or items
    item = rng.choice(small)
    kind = rng.choice(("cut", "more", "type", "random", "outside", "double"))
    if kind == "cut":
        item.raw_data = item.raw_data[: rng.randrange(len(item.raw_data) + 1)]
    elif kind == "more":
        item.raw_data = item.raw_data + rng.randbytes(rng.choice((1, 8, 1000)))
    elif kind == "type":
        item.data_type = rng.choice((*range(27), 99, -1))
    elif kind == "random":
        item.raw_data = rng.choice((rng.randbytes(len(item.raw_data)), b"\xff" * len(item.raw_data), bytes(len(item.raw_data))))
    elif kind == "double":
        item.float_data.extend([1.0, 2.0])
    else:
        item.data_location = onnx.TensorProto.EXTERNAL
        item.ClearField("raw_data")
        places = ("/dev/zero", "../x", "link", "big", "", "/etc/passwd", "m.onnx", ".", "a\0b", "x" * 5000, "pipe")
        for key, texts in {
            "location": places,
            "offset": ("0", "-1", "9" * 30, "x", ""),
            "length": ("8", str(1 << 40), "-5", "x", ""),
            "checksum": ("x",),
        }.items():
            if key == "location" or rng.random() < 0.4:
                entry = item.external_data.add()
                entry.key, entry.value = key, rng.choice(texts)


def nodes(rng: random.Random, model: Model) -> None:
    """Nodes twice, in another order, gone, or with a graph inside."""
    graph = model.graph
    kind = rng.choice(("twice", "order", "drop", "deep", "opset"))
    if kind == "twice" and graph.node:
        graph.node.add().CopyFrom(rng.choice(list(graph.node)))
    elif kind == "order":
        order = rng.sample(list(graph.node), len(graph.node))
        del graph.node[:]
        graph.node.extend(order)
    elif kind == "drop" and graph.node:
        del graph.node[rng.randrange(len(graph.node))]
    elif kind == "opset" and model.opset_import:
        rng.choice(model.opset_import).version = rng.choice((*range(30), *INTEGERS))
    else:
        inner = graph.node.add(op_type="Loop", name="deep")
        for _ in range(rng.choice((1, 5, 30, 45))):
            item = inner.attribute.add(name="body", type=onnx.AttributeProto.GRAPH)
            inner = item.g.node.add(op_type=rng.choice(("If", "Loop")))


CHANGES = (any_field, any_field, any_field, edge, operator, attribute, attribute, shape, shape, values, values, nodes)
PLAUSIBLE = (sizes, sizes, own_attribute, own_attribute, like, edge, shape)


def damaged(rng: random.Random, model: Model) -> bytes:
    """The bytes of a model after some changes."""
    changes = rng.choice((CHANGES, PLAUSIBLE))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            rng.choice(changes)(rng, model)
        except (IndexError, ValueError, TypeError):
            continue  # an earlier change has left nothing of that kind, or a text that protobuf does not take
    content = bytes(model.SerializePartialToString())
    if changes is CHANGES and rng.random() < 0.1:
        at = rng.randrange(len(content) + 1)
        content = rng.choice((content[:at], content[:at] + rng.randbytes(3) + content[at + 3 :], content + content[at:]))
    return content


def write_case(seed: str, folder: Path) -> list[tuple[str, ...]]:
    """The file that belongs to a seed, and the command that reads it."""
    rng = random.Random(seed)
    name = rng.choice(sorted(MODELS))
    (folder / "m.onnx").write_bytes(damaged(rng, MODELS[name]()))
    given = [word for size in DIMS.get(name, ()) for word in ("--dim", size)]
    partial = ["--partial"] if rng.random() < 0.7 else []
    machine = rng.choice(("npu_server", "npu_mobile"))
    bits = ("--w", rng.choice(("1", "2", "4", "8", "16", "32", "64")), "--a", rng.choice(("8", "16", "32")))
    return [("onnx", "m.onnx", "-q", "--set", "max_cycles=1000000", "--config", machine, *bits, *partial, *given)]


def search(seed: int, count: int, folder: Path) -> Tally:
    """So many damaged files."""
    import kernbench.workloads.graphs.moves
    import kernbench.workloads.graphs.run  # noqa: F401

    commands([("onnx", "no.onnx")])()
    (folder / "link").symlink_to("/dev/zero")
    with (folder / "big").open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(folder / "pipe")
    found = Tally(seed)
    gc.freeze()
    for number in range(count):
        case = f"{seed}.{number}"
        found.add(case, run_forked(commands(write_case(case, folder)), folder))
    return found


def test_damaged_files(tmp_path: Path) -> None:
    search(24, 30, tmp_path).check()


@pytest.mark.nightly
def test_damaged_files_for_long(tmp_path: Path) -> None:
    seed = int(os.environ.get("KB_SEED") or random.SystemRandom().randrange(1 << 32))
    search(seed, 3000, tmp_path).check()
