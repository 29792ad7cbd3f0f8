"""Kernels that Triton's compiler takes or refuses, and the text with which `portable` refuses them here.

A kernel has the parameters `o` (pointer to f32), `n` (i32) and `M` (a constant, 3). An empty text: Triton takes the kernel.
`test_triton_rules.py` compares the list with Triton's compiler where Triton is installed.
"""

from __future__ import annotations

HEAD = """import math
import numpy as np
{imports}
PLAIN = 7
CONSTANT = tl.constexpr(7)


def function(x):
    return x + 1


@triton.constexpr_function
def constant(x):
    return x + 1


@triton.jit
def one():
    return 1.0


"""

_T = "a = tl.zeros([4, 4], tl.float32)\n"
_PUT = "tl.store(o + tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4), a)"
RULES: dict[str, tuple[str, str]] = {
    # Containers.
    "list": ("l = [1, 2] + [3]\ntl.store(o, l[2])", ""),
    "list_append": ("l = []\nl.append(1)\ntl.store(o, l[0])", "'tuple' object has no attribute 'append'"),
    "list_set": ("l = [1, 2]\nl[0] = 5\ntl.store(o, l[0])", "assignments to elements"),
    "list_of_shape": (_T + "tl.static_assert(a.shape == [4, 4])\n" + _PUT, ""),
    "comprehension": ("l = [x * 2 for x in (1, 2)]\ntl.store(o, l[1])", ""),
    "comprehension_of_range": ("l = [x for x in range(3)]\ntl.store(o, l[1])", "comprehensions over anything but tuples"),
    "comprehension_twice": ("l = [x for x in (1, 2) for y in (1, 2)]\ntl.store(o, l[1])", "nested comprehensions"),
    "dict": ("d = {1: 2}\ntl.store(o, d[1])", "dicts"),
    "set": ("d = {1}\ntl.store(o, 1)", "sets"),
    "tuple_class": ("t = (1, 2)\nif isinstance(t, tl.tuple):\n    tl.store(o, 1.0)", ""),
    # Names.
    "constant_of_module": ("tl.store(o, CONSTANT)", ""),
    "number_of_module": ("tl.store(o, PLAIN)", "Cannot access global variable PLAIN"),
    "math": ("tl.store(o, math.sqrt(4.0) + math.pi)", ""),
    "kernel": ("tl.store(o, one())", ""),
    "function": ("tl.store(o, function(1))", "Unsupported function referenced: function"),
    "function_of_constants": ("tl.store(o, constant(M))", ""),
    "function_of_numpy": ("tl.store(o, np.sqrt(4.0))", "a kernel cannot use numpy"),
    "helpers": ("tl.store(o, triton.cdiv(10, 3) + tl.cdiv(10, 3))", ""),
    **{f"builtin_{name}": (f"tl.store(o, {name}({of}))", f"{name} is not defined")
       for name, of in (("abs", "M"), ("bool", "M"), ("round", "2.5"), ("sum", "(1, 2)"), ("sorted", "(1, 2)"))},
    "builtin_enumerate": ("for i, x in enumerate((1, 2)):\n    tl.store(o + i, x)", "enumerate is not defined"),
    "builtin_len": ("tl.store(o, len((1, 2)) + max(n, 3) + min(n, 3))", ""),
    # Syntax.
    "comparison": ("if n > 1 and n < 4:\n    tl.store(o, 1.0)", ""),
    "comparisons": ("if 1 < n < 4:\n    tl.store(o, 1.0)", "comparisons of more than two values"),
    "in": ("if M in (1, 3):\n    tl.store(o, 1.0)", "the operator in"),
    "two_targets": ("a = b = 1.0\ntl.store(o, a + b)", "several targets"),
    "for_else": ("for i in range(n):\n    tl.store(o, 1.0)\nelse:\n    tl.store(o, 2.0)", "else after loops"),
    "while_else": ("i = 0\nwhile i < n:\n    i += 1\nelse:\n    tl.store(o, 2.0)", "else after loops"),
    "loop_over_tuple": ("for x in (1, 2):\n    tl.store(o, x)", "loops over anything but range"),
    "loop_over_list": ("t = [1, 2]\nfor x in t:\n    tl.store(o, x)", "loops over anything but range"),
    "loop_unrolled": ("for i in tl.static_range(2):\n    tl.store(o + i, 1.0)", ""),
    "text_of_constant": ('tl.static_assert(M == 3, f"M is {M}")\ntl.store(o, M)', ""),
    "text_of_variable": ('x = 5\ntl.static_print(f"{x}")\ntl.store(o, x)', "f-strings of values that are not constants"),
    "text_of_argument": ('print(f"{n}")', "f-strings of values that are not constants"),
    "constant_twice": ("x: tl.constexpr = 4\nx: tl.constexpr = 5\ntl.store(o, x)", "x is already defined"),
    "constant_of_variable": ("x = 4\nx: tl.constexpr = 5\ntl.store(o, x)", "x is already defined"),
    "constant_in_loop": (
        "for i in tl.static_range(2):\n    x: tl.constexpr = i\n    tl.store(o + i, x)", "x is already defined",
    ),
    "named_value": ("if (m := n + 1) > 2:\n    tl.store(o, m)", ""),
    "unpacked": ("t = (o, 1.0)\ntl.store(*t)", ""),
    "and_of_tensors": ("i = tl.arange(0, 4)\ntl.store(o + i, 1.0, mask=(i < 3) and (i > 1))", ""),
    # Values.
    "length_of_axis": (_T + "x: tl.constexpr = a.shape[1].value\ntl.store(o, x)\ntl.store(o + 1, a.numel.value)", ""),
    "number_as_tensor": ("f = 1.0\ntl.store(o, (f + 1.0).to(tl.float16))", ""),
    "pointers_by_condition": ("p = tl.where(n > 2, o, o + 8)\ntl.store(p, 1.0)", ""),
    "block_to_pointer": ("tl.store(o, tl.zeros([1], tl.float32))", "to a single pointer"),
    "length_of_tensor": ("tl.store(o, len(tl.arange(0, 4)))", "len of a tensor"),
    "eviction": ('tl.store(o, tl.load(o, eviction_policy="evict_last"))', ""),
    "eviction_unknown": ('tl.store(o, tl.load(o, eviction_policy="never"))', "Eviction policy never not supported"),
    "histogram": ("tl.store(o, tl.sum(tl.histogram(tl.arange(0, 8), 4)))", ""),
    "histogram_of_three": ("tl.store(o, tl.sum(tl.histogram(tl.arange(0, 8), 3)))", "each length must be a power of two"),
    "join_of_types": (
        "tl.store(o, tl.sum(tl.join(tl.zeros([4], tl.float32), tl.zeros([4], tl.int32))))", "must have the same type",
    ),
    "full_below_zero": ("tl.store(o, tl.sum(tl.full([4], -1, tl.uint8)))", "the value must fit into the type"),
    "print_without_text": ("tl.device_print(n)", "its first argument is a text"),
    **{f"atomic_{op}_{kind}": (f"tl.atomic_{op}(o.to(tl.pointer_type(tl.{kind})), tl.full([], 1, tl.{kind}){more})", text)
       for op, kind, more, text in (
           ("cas", "int16", ", tl.full([], 2, tl.int16)", ""), ("add", "float16", "", ""), ("add", "bfloat16", "", ""),
           ("add", "int16", "", "atomic_add does not support int16"), ("xchg", "int8", "", "atomic_xchg does not support int8"),
           ("max", "float16", "", "atomic_max does not support fp16"), ("max", "float32", "", ""),
       )},
}  # fmt: skip


def module_text(imports: str) -> str:
    """The kernels as a module."""
    found = [HEAD.format(imports=imports)]
    for name, (body, _) in RULES.items():
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        found.append(f"@triton.jit\ndef {name}_kernel(o, n, M: tl.constexpr):\n{lines}\n\n\n")
    return "".join(found)
