"""Faulty ONNX files: each is refused with exit code 2 and a line that says where, what and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Kbsim
from tests.onnx_models import Builder, helper, numpy_helper

Model = Any


def base() -> Model:
    """A convolution, a matrix product behind it, and a sum with a small constant."""
    b = Builder(17)
    x = b.input("x", 1, 4, 8, 8)
    x = b.node("Conv", x, b.weight("w", 6, 4, 3, 3), name="conv", pads=[1, 1, 1, 1])
    x = b.node("Reshape", x, b.constant("shape", [6, 64]), name="flat")
    x = b.node("MatMul", x, b.weight("v", 64, 5), name="product")
    b.output(b.node("Add", x, b.constant("c", [1, 2, 3, 4, 5], np.float32), name="sum"))
    return b.model()


def weight(model: Model, name: str) -> Any:
    return next(item for item in model.graph.initializer if item.name == name)


def set_attribute(model: Model, node: int, name: str, value: Any) -> None:
    for item in list(model.graph.node[node].attribute):
        if item.name == name:
            model.graph.node[node].attribute.remove(item)
    model.graph.node[node].attribute.append(helper.make_attribute(name, value))


def change(call: Callable[[Model], Any]) -> Callable[[], Model]:
    def make() -> Model:
        model = base()
        call(model)
        return model

    return make


def _values(model: Model) -> None:
    weight(model, "c").raw_data = b"\0" * 7


def _many_values(model: Model) -> None:
    weight(model, "c").raw_data = b"\0" * 24


def _negative(model: Model) -> None:
    weight(model, "c").dims[0] = -1


def _deep(model: Model) -> None:
    weight(model, "c").dims[:] = [1] * 1000


def _type(model: Model) -> None:
    weight(model, "c").data_type = 99


def _input_type(model: Model) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 0


def _nameless(model: Model) -> None:
    weight(model, "c").name = ""


def _no_input(model: Model) -> None:
    del model.graph.node[0].input[:]


def _left_out(model: Model) -> None:
    model.graph.node[0].input[0] = ""


def _missing(model: Model) -> None:
    model.graph.node[2].input[0] = "nobody"


def _circle(model: Model) -> None:
    model.graph.node[1].input[0] = "sum_out"


def _itself(model: Model) -> None:
    model.graph.node[1].input[0] = model.graph.node[1].output[0]


def _twice(model: Model) -> None:
    model.graph.node.add().CopyFrom(model.graph.node[3])


def _over_an_input(model: Model) -> None:
    model.graph.node[1].output[0] = "x"
    model.graph.node[2].input[0] = "x"


def _no_output(model: Model) -> None:
    model.graph.output[0].name = "nobody"


def _no_opset(model: Model) -> None:
    del model.opset_import[:]


def _two_opsets(model: Model) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx", 12))


def _opset(model: Model) -> None:
    model.opset_import[0].version = 2**62


def _old_opset(model: Model) -> None:
    model.graph.node[3].op_type = "Gelu"
    del model.graph.node[3].input[1:]


def _attribute_type(model: Model) -> None:
    set_attribute(model, 0, "strides", 2)


def _attribute_twice(model: Model) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("pads", [0, 0, 0, 0]))


def _attribute_unknown(model: Model) -> None:
    set_attribute(model, 2, "axis", 2)


def _attribute_untyped(model: Model) -> None:
    model.graph.node[0].attribute[0].type = 0


def _attribute_missing(model: Model) -> None:
    model.graph.node[3].op_type = "Concat"


def _operator(model: Model) -> None:
    model.graph.node[3].op_type = ""


def _functions(model: Model) -> None:
    for name, other in (("A", "B"), ("B", "A")):
        node = helper.make_node(other, ["a"], ["b"], domain="own")
        model.functions.append(helper.make_function("own", name, ["a"], ["b"], [node], [helper.make_opsetid("own", 1)]))
    model.opset_import.append(helper.make_opsetid("own", 1))


def _many_functions(model: Model) -> None:
    for number in range(40):
        inner = "Relu" if number == 0 else f"F{number - 1}"
        domain = "" if number == 0 else "own"
        nodes = [helper.make_node(inner, [source], [f"{source}b"], domain=domain) for source in ("a", "ab")]
        opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 17)]
        model.functions.append(helper.make_function("own", f"F{number}", ["a"], ["abb"], nodes, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[3].CopyFrom(helper.make_node("F39", ["product_out"], ["sum_out"], domain="own"))


CASES: dict[str, tuple[Callable[[Model], Any], str]] = {
    "values": (_values, "initializer c: its values do not make 5 of its type: buffer size must be a multiple of element size"),
    "many values": (
        _many_values,
        "initializer c: its values do not make 5 of its type: cannot reshape array of size 6 into shape (5,)",
    ),
    "negative": (_negative, "initializer c: dims = -1, but a dimension must be at least 0"),
    "deep": (_deep, "initializer c: it has 1000 dimensions, and a tensor has at most 32"),
    "type": (_type, "initializer c: data_type = 99, but there is no such type of elements"),
    "input type": (_input_type, "input x: elem_type = 0, but there is no such type of elements"),
    "nameless": (_nameless, "it has an initializer without a name"),
    "no input": (_no_input, "node conv (Conv): number of inputs = 0, but it has 2 to 3 of them"),
    "left out": (_left_out, "node conv (Conv): inputs[0]: it must not be left out"),
    "missing": (_missing, "node product: it reads nobody, which is not an input, initializer or output of a node"),
    "circle": (
        _circle,
        "node flat: it reads sum_out, which the later node sum makes; sort the nodes, so that each follows those that it "
        "reads from",
    ),
    "itself": (
        _itself,
        "node flat: it reads flat_out, which the later node flat makes; sort the nodes, so that each follows those that it "
        "reads from",
    ),
    "twice": (_twice, "node sum: it makes sum_out, which node sum makes too"),
    "over an input": (_over_an_input, "node flat: it makes x, which is an input or an initializer"),
    "no output": (_no_output, "output nobody: no node makes it"),
    "no opset": (_no_opset, "opset_import: it imports no opset of ai.onnx; export it with one"),
    "two opsets": (_two_opsets, "it imports two opsets of ai.onnx: 17 and 12"),
    "old opset": (
        _old_opset,
        "node sum (Gelu): opset 17 of ai.onnx has no such operator; export it with another opset",
    ),
    "attribute type": (_attribute_type, 'node conv (Conv): type of attribute strides = "INT", but it must be of type INTS'),
    "attribute twice": (_attribute_twice, "node conv (Conv): attribute pads: it is given twice"),
    "attribute unknown": (
        _attribute_unknown,
        "node product (MatMul): attribute axis: it has no such attribute; it has none; remove it",
    ),
    "attribute untyped": (_attribute_untyped, "node conv (Conv): attribute pads: it has no type"),
    "attribute missing": (_attribute_missing, "node sum (Concat): attribute axis: it is missing"),
    "operator": (_operator, "node sum (): op_type: it has no operator"),
    "functions": (_functions, "its functions call each other in a cycle: A -> B -> A"),
    "many functions": (
        _many_functions,
        "it has 1099511627779 nodes with its functions written out, and a graph has at most 100000",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_faulty_files(name: str, kbsim: Kbsim) -> None:
    call, message = CASES[name]
    Path("m.onnx").write_bytes(change(call)().SerializeToString())
    for more in ((), ("--partial",)):
        said = kbsim("onnx", "m.onnx", *more)
        assert (said.code, said.out, said.err.splitlines()[0]) == (2, "", f"error: m.onnx: {message}")


def test_an_opset_that_onnx_does_not_have(kbsim: Kbsim) -> None:
    Path("m.onnx").write_bytes(change(_opset)().SerializeToString())
    said = kbsim("onnx", "m.onnx")
    assert said.code == 2
    assert said.err.startswith(f"error: m.onnx: opset_import of ai.onnx = {2**62}, but the installed onnx has the opsets 1 to ")


def one(op: str, *shape: int, more: tuple[Any, ...] = (), opset: int = 18, **attributes: Any) -> Builder:
    """A node of one input of that shape; `more`: constants behind it."""
    b = Builder(opset)
    x = b.input("x", *shape)
    constants = [b.constant(f"c{i}", value, np.asarray(value).dtype.type) for i, value in enumerate(more)]
    b.output(b.node(op, x, *constants, name="it", **attributes))
    return b


FITTING = {
    "axis": (
        one("Softmax", 4, 8, axis=7),
        "it (Softmax): the shape of it_out is not known: 'axis' must be in [-2 , 1]. Its actual value is: 7",
    ),
    "group": (
        one("Conv", 1, 4, 8, more=(np.zeros((4, 1, 3), np.float32),), group=0),
        "it (Conv): group = 0, but it must be at least 1",
    ),
    "elements": (one("Reshape", 4, 8, more=([5, 5],)), "it (Reshape): 32 elements do not make 5 x 5"),
    "entries": (
        one("Expand", 1, more=([1 << 20],)),
        "it takes about 3145728 entries, 3145728 of them for node it (Expand), and a program has at most 262144; make a "
        "dimension smaller, or the scratchpad larger",
    ),
}


@pytest.mark.parametrize("name", FITTING)
def test_values_that_do_not_fit_shapes(name: str, kbsim: Kbsim) -> None:
    builder, message = FITTING[name]
    builder.save(Path("m.onnx"))
    assert kbsim("onnx", "m.onnx", "-q") == (2, "", f"error: m: {message}\n")


def test_operators_of_other_domains_are_listed(kbsim: Kbsim) -> None:
    """One that only is called as one of ONNX's own is none, whatever inputs it has."""
    b = Builder()
    x = b.input("x", 4, 8)
    for op in ("Transpose", "BatchNormalization", "Mul", "Pow"):
        b.nodes.append(helper.make_node(op, [], [f"{op}_out"], name=op, domain="own"))
    b.output(b.node("Relu", x))
    b.save(Path("m.onnx"))
    said = kbsim("onnx", "m.onnx")
    assert said.code == 2 and "error: m: Transpose (Transpose): there is no lowering of Transpose of own" in said.err
    assert kbsim("onnx", "m.onnx", "--partial", "-q").code == 0


def test_operators_that_keep_the_shape(kbsim: Kbsim) -> None:
    """onnx knows no shapes of what com.microsoft adds, and none of GroupNormalization."""
    b = Builder(21)
    x = b.input("x", 2, 8, 6)
    x = b.node("GroupNormalization", x, b.weight("g", 8), b.weight("s", 8), num_groups=4)
    x = b.node("FastGelu", x, domain="com.microsoft")
    b.output(b.node("SimplifiedLayerNormalization", x, b.weight("gain", 6), domain="com.microsoft"))
    b.save(Path("m.onnx"))
    assert kbsim("onnx", "m.onnx", "-q") == (0, "", "")


def test_a_reduction_over_no_axes(kbsim: Kbsim) -> None:
    b = one("ReduceSum", 4, 8, more=(np.zeros(0, np.int64),), noop_with_empty_axes=1)
    b.save(Path("m.onnx"))
    assert kbsim("onnx", "m.onnx", "-q") == (0, "", "")


def test_values_of_an_unread_type(kbsim: Kbsim) -> None:
    """Texts are constants too, but no exponent."""
    model = one("Pow", 4, 8, more=(np.float32(2),)).model()
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.asarray("two", object), "c0"))
    Path("m.onnx").write_bytes(model.SerializeToString())
    said = kbsim("onnx", "m.onnx")
    assert (said.code, said.err) == (2, "error: m: it (Pow): its exponent is of type object, and must be numbers\n")
