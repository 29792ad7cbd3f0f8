"""Kernels that run under Triton's interpreter and here: what each computes, and how near the results must be.

A case is lines of a kernel that make `r` of what the harness loads: `x`, `y` f32 of 256 numbers, `m`, `n` the same as
matrices of 16 by 16, `s`, `t` f32 with infinities, NaN and zeros of both signs in all pairs, `h`, `g` f16, `i`, `j` i32 (no
zero in `j`), `l` i64, `u` u32, `b` u8, `places` 0 to 255, and the pointers of all (`x_ptr`, ...). 0: every bit is the same.
"""

from __future__ import annotations

import random

EXP = 3e-6  # functions: numpy's of f32 on both sides, but through f64 here and there
ADD = 2e-5  # sums of 256 numbers in another order
HALF = 2e-3

CASES: dict[str, tuple[str, float]] = {
    # Elementwise functions.
    **{f"f_{name}": (f"r = tl.{name}(x)", EXP) for name in ("exp", "exp2", "sin", "cos", "erf", "sigmoid")},
    **{f"f_{name}": (f"r = tl.{name}(tl.abs(x) + 0.1)", EXP) for name in ("log", "log2", "sqrt", "rsqrt", "sqrt_rn")},
    **{f"s_{name}": (f"r = tl.{name}(s)", EXP) for name in ("exp", "exp2", "log", "sqrt", "floor", "ceil", "abs", "sigmoid")},
    "floor": ("r = tl.floor(x * 9)", 0),
    "ceil": ("r = tl.ceil(x * 9)", 0),
    "abs": ("r = tl.abs(x) + tl.abs(i)", 0),
    "abs_u": ("r = tl.abs(u)", 0),
    "fma": ("r = tl.fma(x, y, 1.5)", 2e-7),
    "clamp": ("r = tl.clamp(s, t, 2.0)", 0),
    "clamp_nan": ("r = tl.clamp(s, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)", 0),
    "maximum": ("r = tl.maximum(s, t)", 0),
    "minimum": ("r = tl.minimum(s, t)", 0),
    "maximum_nan": ("r = tl.maximum(s, t, propagate_nan=tl.PropagateNan.ALL)", 0),
    "minimum_nan": ("r = tl.minimum(s, t, propagate_nan=tl.PropagateNan.ALL)", 0),
    "maximum_i": ("r = tl.maximum(i, 3) + tl.minimum(u, 9)", 0),
    "where": ("r = tl.where((x > y) & (i < 9), x, -1.0)", 0),
    "where_types": ("r = tl.where(i > 0, i, 2.5)", 0),
    "where_mixed": ("r = tl.where(i > 0, h, x)", 0),
    "fdiv": ("r = tl.fdiv(x, y + 5)", 0),
    "div_rn": ("r = tl.div_rn(x, y + 5)", 0),
    "softmax": ("r = tl.softmax(m, 1)", EXP),
    "softmax_0": ("r = tl.softmax(m)", EXP),
    # Operators.
    **{f"op_{name}": (f"r = x {op} y", 0) for name, op in {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}.items()},
    **{f"s_op_{name}": (f"r = s {op} t", 0) for name, op in {"add": "+", "mul": "*", "div": "/"}.items()},
    **{f"c_{name}": (f"r = s {op} t", 0) for name, op in {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "ge": ">="}.items()},
    **{f"i_{name}": (f"r = i {op} j", 0) for name, op in {"div": "//", "mod": "%", "and": "&", "or": "|", "xor": "^"}.items()},
    "true_div": ("r = i / j", 0),
    "true_div_h": ("r = h / 3", 0),
    "half_mod": ("r = h % 2.5", 0),
    "half": ("r = h * g + h - 2", 0),
    "half_int": ("r = h * i", 0),
    "half_f32": ("r = h * x", 0),
    "half_exp": ("r = tl.exp(h.to(tl.float32)).to(tl.float16)", HALF),
    "neg": ("r = -i + (-l).to(tl.int32)", 0),
    "invert": ("r = ~i ^ ~(i > 3)", 0),
    "bool_arith": ("r = (i > 0) + (x > 0)", 0),
    "bool_mul": ("r = (i > 0) * (x > 0)", 0),
    "shl": ("r = i << (places & 7)", 0),
    "shr": ("r = (i * 1000) >> (places & 7)", 0),
    "shr_u": ("r = u >> (places & 31)", 0),
    "wrap_8": ("r = (i.to(tl.int8) * 3 + 100)", 0),
    "wrap_16": ("r = i.to(tl.int16) * 999", 0),
    "wrap_32": ("r = i * 100000000", 0),
    "wrap_u8": ("r = b * 7 + 200", 0),
    "i64": ("r = l * 3 - l // 7 + l % -5", 0),
    "u32": ("r = u // 7 + u % 1000 - 5", 0),
    "mixed": ("r = i + l * u", 0),
    "mixed_small": ("r = i.to(tl.int8) + b", 0),
    "number_float": ("r = i * 0.5", 0),
    "reflected": ("r = 7 - i", 0),
    "reflected_div": ("r = 7.0 / (x + 9)", 0),
    "cdiv": ("r = tl.cdiv(tl.abs(i) + 1, 7)", 0),
    "umulhi": ("r = tl.umulhi(u, u)", 0),
    "umulhi_i": ("r = tl.umulhi(i, i)", 0),
    "u64": ("v = l.to(tl.uint64)\nr = v // 7 + (v >> 3) + v % 1000", 0),
    "u64_compare": ("v = l.to(tl.uint64)\nr = (v > 5) & (v <= (l + 3).to(tl.uint64))", 0),
    "u64_max": ("v = l.to(tl.uint64)\nr = tl.maximum(v, 9) + tl.minimum(v, 1 << 40)", 0),
    "u64_float": ("r = l.to(tl.uint64).to(tl.float32)", 0),
    "u64_hash": ("v = l.to(tl.uint64) * 0x9E3779B97F4A7C15\nr = v ^ (v >> 29)", 0),
    "u64_umulhi": ("r = tl.umulhi(l.to(tl.uint64), l.to(tl.uint64) * 77)", 0),
    "add_names": ("r = tl.add(tl.sub(x, y), tl.mul(x, 3.0))", 0),
    # Casts.
    **{f"to_{name}": (f"r = (x * 30).to(tl.{name})", 0) for name in ("int8", "int16", "int32", "int64", "float16", "int1")},
    **{f"from_{name}": (f"r = i.to(tl.{name}).to(tl.float32)", 0) for name in ("int8", "uint8", "int16", "uint32", "float16")},
    "bf16_exact": ("r = i.to(tl.float32).to(tl.bfloat16).to(tl.float32)", 0),
    "fp8_exact": ("r = ((places & 15) - 8).to(tl.float32).to(tl.float8e4nv)", 0),
    "fp8_e5_exact": ("r = ((places & 7) - 4).to(tl.float32).to(tl.float8e5).to(tl.float16)", 0),
    "fp8_read": ("r = (b & 119).to(tl.float8e4nv, bitcast=True).to(tl.float32)", 0),
    "bitcast": ("r = x.to(tl.int32, bitcast=True) ^ 5", 0),
    "bitcast_h": ("r = h.to(tl.uint16, bitcast=True)", 0),
    "bitcast_back": ("r = (u & 0x3FFFFFFF).to(tl.float32, bitcast=True)", 0),
    "i64_to_float": ("r = l.to(tl.float32)", 0),
    # Shapes.
    "trans": ("r = tl.trans(m)", 0),
    "permute": ("r = tl.permute(tl.reshape(x, (4, 8, 8)), (2, 0, 1))", 0),
    "reshape": ("r = tl.reshape(m, (4, 64)) + tl.arange(0, 64)[None, :]", 0),
    "expand": ("r = tl.expand_dims(x, 1) + tl.zeros((1, 2), tl.float32)", 0),
    "broadcast": ("r = tl.broadcast_to(tl.arange(0, 16)[:, None], (16, 16))", 0),
    "broadcast_two": ("a, c = tl.broadcast(m, tl.arange(0, 16)[None, :])\nr = a + c", 0),
    "join": ("r = tl.join(x, y)", 0),
    "split": ("a, c = tl.split(tl.reshape(x, (128, 2)))\nr = a - c", 0),
    "interleave": ("r = tl.interleave(x, y)", 0),
    "cat": ("r = tl.cat(x, y, dim=0)", 0),
    "cat_1": ("r = tl.cat(m, n, dim=1)", 0),
    "ravel": ("r = tl.ravel(tl.trans(m))", 0),
    "flip": ("r = tl.flip(m, 1)", 0),
    "flip_0": ("r = tl.flip(i)", 0),
    "view": ("r = x.view(2, 128)", 0),
    "squeeze": ("r = tl.squeeze(tl.unsqueeze(x, 0), 0)", 0),
    "gather": ("r = tl.gather(m, tl.reshape(places * 7 % 16, (16, 16)), 1)", 0),
    "gather_0": ("r = tl.gather(m, tl.reshape(places * 5 % 16, (16, 16)), 0)", 0),
    "full": ("r = tl.full((4, 4), 3, tl.int16) + tl.zeros_like(tl.full((4, 4), 1, tl.int16))", 0),
    "swizzle": ("a, c = tl.swizzle2d(places // 16, places % 16, 16, 16, 4)\nr = a * 100 + c", 0),
    # Reductions and scans.
    "sum": ("r = tl.sum(m, 1)", ADD),
    "sum_all": ("r = tl.sum(m)", ADD),
    "sum_keep": ("r = tl.sum(m, 0, keep_dims=True)", ADD),
    "sum_i": ("r = tl.sum(i.to(tl.int8), 0)", 0),
    "sum_u": ("r = tl.sum(b, 0)", 0),
    "sum_bool": ("r = tl.sum(x > 0, 0)", 0),
    "sum_dtype": ("r = tl.sum(i, 0, dtype=tl.int64)", 0),
    "sum_half": ("r = tl.sum(h, 0, dtype=tl.float32)", 1e-4),
    "max": ("r = tl.max(m, 1)", 0),
    "max_nan": ("r = tl.max(tl.reshape(s, (16, 16)), 1)", 0),
    "min_nan": ("r = tl.min(tl.reshape(s, (16, 16)), 0)", 0),
    "max_half": ("r = tl.max(h, 0)", 0),
    "max_i8": ("r = tl.max(i.to(tl.int8), 0)", 0),
    "max_u64": ("r = tl.max(l.to(tl.uint64), 0)", 0),
    "max_indices": ("a, c = tl.max(m, 1, return_indices=True)\nr = a + c", 0),
    "argmax": ("r = tl.argmax(m, 1)", 0),
    "argmax_ties": ("r = tl.argmax(tl.reshape(i // 40, (16, 16)), 1)", 0),
    "argmin": ("r = tl.argmin(m, 0, keep_dims=True)", 0),
    "xor_sum": ("r = tl.xor_sum(i, 0)", 0),
    "reduce_or": ("r = tl.reduce_or(tl.reshape(i, (16, 16)), 1)", 0),
    "reduce": ("r = tl.reduce(m, 1, bigger)", 0),
    "reduce_two": ("a, c = tl.reduce((m, n), 0, both)\nr = a + c", ADD),
    "cumsum": ("r = tl.cumsum(m, 1)", ADD),
    "cumsum_back": ("r = tl.cumsum(i, 0, reverse=True)", 0),
    "cumsum_i8": ("r = tl.cumsum(i.to(tl.int8), 0)", 0),
    "cumprod": ("r = tl.cumprod(m * 0.3 + 1, 1)", 1e-4),
    "scan": ("r = tl.associative_scan(m, 1, bigger)", 0),
    "scan_back": ("r = tl.associative_scan(m, 0, bigger, reverse=True)", 0),
    "scan_two": ("a, c = tl.associative_scan((tl.abs(m) * 0.5, n), 1, recur)\nr = a + c", 1e-4),
    "sort": ("r = tl.sort(m)", 0),
    "sort_down": ("r = tl.sort(i, descending=True)", 0),
    "sort_half": ("r = tl.sort(h)", 0),
    "topk": ("r = tl.topk(m, 4)", 0),
    "topk_low": ("r = tl.topk(i, 8, descending=False)", 0),
    "histogram": ("r = tl.histogram(tl.abs(i) % 16, 16)", 0),
    "histogram_mask": ("r = tl.histogram(tl.abs(i) % 16, 16, mask=x > 0)", 0),
    # Products.
    "dot": ("r = tl.dot(m, n, input_precision='ieee')", 1e-5),
    "dot_acc": ("r = tl.dot(m, n, acc=m, input_precision='ieee')", 1e-5),
    "dot_half": ("p = tl.reshape(h, (16, 16))\nr = tl.dot(p, tl.trans(p))", 1e-4),
    "dot_half_out": ("p = tl.reshape(h, (16, 16))\nr = tl.dot(p, p, out_dtype=tl.float16)", 1e-2),
    "dot_i8": ("p = tl.reshape(i, (16, 16)).to(tl.int8)\nr = tl.dot(p, p)", 0),
    "dot_3d": ("p = tl.reshape(x, (4, 8, 8))\nr = tl.dot(p, p)", 1e-5),
    "dot_fp8": ("p = tl.reshape((b & 119).to(tl.float8e4nv, bitcast=True), (16, 16))\nr = tl.dot(p, p)", 1e-4),
    "dot_scaled": (
        "p = tl.reshape(b & 119, (8, 32))\nv = tl.reshape(b & 103, (32, 8))\nc = tl.reshape((places & 7) + 124, (8, 32))\n"
        "c = tl.max(c, 1, keep_dims=True).to(tl.uint8)\nr = tl.dot_scaled(p, c, 'e4m3', v, c, 'e4m3')", 1e-5,
    ),
    "dot_fp4": (
        "p = tl.reshape(b, (16, 16))\nc = (tl.zeros((16, 1), tl.int32) + 126).to(tl.uint8)\n"
        "r = tl.dot_scaled(p, c, 'e2m1', tl.trans(p), c, 'e2m1')", 1e-5,
    ),
    "dot_fp4_bf16": (
        "p = tl.reshape(b, (16, 16))\nv = tl.reshape(tl.join(i, j), (32, 16)).to(tl.float32).to(tl.float16)\n"
        "r = tl.dot_scaled(p, None, 'e2m1', v, None, 'fp16')", 1e-3,
    ),
    # Random numbers.
    "randint": ("r = tl.randint(11, places)", 0),
    "randint4x": ("a, c, d, e = tl.randint4x(123456789012, places)\nr = a ^ c ^ d ^ e", 0),
    "randint_l": ("r = tl.randint(5, l)", 0),
    "rand": ("r = tl.rand(11, places)", 0),
    "rand4x": ("a, c, d, e = tl.rand4x(11, places)\nr = a + c + d + e", 0),
    "randn": ("r = tl.randn(11, places)", 1e-5),
    "randn4x": ("a, c, d, e = tl.randn4x(7, places)\nr = a + c + d + e", 1e-5),
    "rounds": ("r = tl.randint(11, places, 5)", 0),
    "philox": ("a, c, d, e = tl.philox(99, u, u, u + 1, u)\nr = a ^ c ^ d ^ e", 0),
    "philox_64": ("a, c, d, e = tl.philox(99, l, l, l + 1, l)\nr = a ^ c ^ d ^ e", 0),
    "uniform_64": ("r = tl.uint_to_uniform_float(l)", 0),
    # Memory.
    "masked": ("r = tl.load(x_ptr + places, mask=places % 3 == 0, other=-1.5)", 0),
    "masked_int": ("r = tl.load(i_ptr + places * 2, mask=places < 128, other=7)", 0),
    "masked_other_tile": ("r = tl.load(x_ptr + places, mask=y > 0, other=y) if False else tl.where(y > 0, x, y)", 0),
    "gathered": ("r = tl.load(x_ptr + tl.abs(i) % 256)", 0),
    "strided": ("r = tl.load(x_ptr + tl.arange(0, 16)[None, :] * 16 + tl.arange(0, 16)[:, None])", 0),
    "desc": ("d = tl.make_tensor_descriptor(x_ptr, [16, 16], [16, 1], [8, 16])\nr = d.load([12, 0])", 0),
    "desc_nan": (
        "d = tl.make_tensor_descriptor(x_ptr, [14, 16], [16, 1], [8, 16], padding_option='nan')\nr = d.load([8, 0])", 0,
    ),
    "desc_gather": (
        "d = tl.make_tensor_descriptor(x_ptr, [16, 16], [16, 1], [1, 8])\nr = d.gather(tl.arange(0, 8) * 2, 8)", 0,
    ),
    "desc_scatter": (
        "d = tl.make_tensor_descriptor(x_ptr, [16, 16], [16, 1], [1, 16])\n"
        "d.scatter(tl.reshape(y, (16, 16)), 15 - tl.arange(0, 16), 0)\nr = tl.load(x_ptr + places)", 0,
    ),
    "store_masked": ("tl.store(x_ptr + places, y, mask=places % 2 == 0)\nr = tl.load(x_ptr + places)", 0),
    "atomic_add": ("a = tl.atomic_add(i_ptr + places, j)\nr = tl.load(i_ptr + places) * 3 + a", 0),
    "atomic_same": ("tl.atomic_add(i_ptr + places % 4, j)\nr = tl.load(i_ptr + places)", 0),
    "atomic_max": ("a = tl.atomic_max(i_ptr + places, j * 9)\nr = tl.load(i_ptr + places) + a", 0),
    "atomic_min_u": ("a = tl.atomic_min(u_ptr + places, tl.zeros_like(u) + 77)\nr = tl.load(u_ptr + places) + a", 0),
    "atomic_bits": (
        "tl.atomic_and(i_ptr + places, 12)\ntl.atomic_or(i_ptr + places, 3)\ntl.atomic_xor(i_ptr + places, j)\n"
        "r = tl.load(i_ptr + places)", 0,
    ),
    "atomic_masked": ("a = tl.atomic_add(i_ptr + places, 5, mask=places < 9)\nr = tl.load(i_ptr + places)", 0),
    "atomic_float": ("tl.atomic_add(x_ptr + places, y)\nr = tl.load(x_ptr + places)", 0),
    "atomic_fmax": ("tl.atomic_max(x_ptr + places, y)\nr = tl.load(x_ptr + places)", 0),
    "atomic_xchg": ("a = tl.atomic_xchg(i_ptr + places, j)\nr = tl.load(i_ptr + places) + a * 2", 0),
    "atomic_cas": ("a = tl.atomic_cas(i_ptr + places, i, j)\nr = tl.load(i_ptr + places) + a", 0),
    "atomic_store": ("tl.atomic_store(i_ptr + places, j)\nr = tl.atomic_load(i_ptr + places) + 0", 0),
    "atomic_poll": ("r = tl.atomic_poll(i_ptr + places, i)", 0),
    # Control.
    "loop": ("r = x\nfor k in range(1, 9, 3):\n    r = r * k + 1.0", 0),
    "loop_tl": ("r = x\nfor k in tl.range(0, 4, num_stages=2):\n    r = r + k", 0),
    "loop_static": ("r = x\nfor k in tl.static_range(3):\n    r = r + k", 0),
    "min_max": ("r = x + min(5, tl.program_id(0) + 2) + max(1.5, 2)", 0),
    "branch": ("r = x\nif tl.load(i_ptr + 3) > -1000:\n    r = r + 1", 0),
    "while": ("r = x\nk = tl.program_id(0)\nwhile k < 3:\n    r = r * 2\n    k += 1", 0),
    "programs": ("r = x + tl.num_programs(0) + tl.program_id(1)", 0),
    "to_tensor": ("r = tl.to_tensor(3.5) * x", 0),
}  # fmt: skip

#: More of them, which run behind the generated ones: cases of one launch share their memory, and stand in the order of before.
LATER: dict[str, tuple[str, float]] = {
    **{
        f"shr_{a}_{b}": (f"r = ((l >> 20).to(tl.{a}) - 90) >> (places & 7).to(tl.{b})", 0)
        for a, b in (
            ("int32", "uint32"), ("int8", "uint32"), ("int16", "uint16"), ("int32", "uint64"), ("int64", "uint64"),
            ("int8", "uint8"), ("uint32", "int32"), ("uint8", "int64"), ("uint16", "int8"),
        )
    },
    "shr_reflected": ("r = -100 >> (places & 7)", 0),
    "shr_reflected_u": ("r = 100 >> (places & 7).to(tl.uint32)", 0),
    "shl_mixed": ("r = (i.to(tl.int8) << (places & 7).to(tl.uint32)) + (u << (places & 7))", 0),
    "sum_i8_wraps": ("r = tl.sum(i, 0, dtype=tl.int8)", 0),
    "sum_bool_i8": ("r = tl.sum(x > 0, 0, dtype=tl.int8)", 0),
    **{
        f"max_indices_{kind}": (f"a, c = tl.max(({of}).to(tl.{kind}), 0, return_indices=True)\nr = a", 0)
        for kind, of in (("int1", "i > 3"), ("int8", "i"), ("uint16", "i"), ("float16", "i"))
    },
    "min_indices_half": ("a, c = tl.min(h, 0, return_indices=True)\nr = a", 0),
    "xor_sum_bool": ("r = tl.xor_sum(tl.reshape(x > 0, (16, 16)), 1)", 0),
    "cumsum_bool": ("r = tl.cumsum(x > 0, 0)", 0),
    "cumsum_i8_wraps": ("r = tl.cumsum(i, 0, dtype=tl.int8)", 0),
    "masked_float": ("r = tl.load(x_ptr + places, mask=places % 3 == 0)", 0),
    "masked_integers": ("r = tl.load(i_ptr + places, mask=i > 20) + tl.sum(tl.load(b_ptr + places, mask=places < 9), 0)", 0),
}  # fmt: skip


def generated(seed: int, count: int) -> dict[str, tuple[str, float]]:
    """Kernels of random expressions of integers of all widths, and of floats; exact in every bit."""
    dice = random.Random(seed)
    made = {}
    for number in range(count):
        made[f"generated_{seed}_{number}"] = (f"r = {_tree(dice, number % 2, 4)}", 0.0)
    return made


def _tree(dice: random.Random, floats: int, depth: int) -> str:
    if depth == 0 or dice.random() < 0.1:
        return dice.choice(["x", "y", "h", "g", "s"] if floats else ["i", "j", "l", "b", "places", "u", "i.to(tl.int16)"])
    one, other = (_tree(dice, floats, depth - 1) for _ in range(2))
    if floats:
        way = dice.choice(["({} + {})", "({} - {})", "({} * {})", "tl.maximum({}, {})", "tl.minimum({}, {})", "where", "cast"])
        if way == "where":
            return f"tl.where({one} > {other}, {one}, {dice.choice(['0.25', other])})"
        if way == "cast":
            return f"({one} * {dice.choice(['0.5', '2', '-1.25'])}).to(tl.{dice.choice(['float16', 'float32'])})"
        return way.format(one, other)
    way = dice.choice(
        ["({} + {})", "({} - {})", "({} * {})", "({} & {})", "({} | {})", "({} ^ {})", "where", "cast", "shift", "div"]
    )
    if way == "where":
        return f"tl.where({one} > {other}, {one}, {other})"
    if way == "cast":
        return f"{one}.to(tl.{dice.choice(['int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64'])})"
    if way == "shift":
        return f"({one} {dice.choice(['<<', '>>'])} {dice.randrange(0, 7)})"
    if way == "div":
        return f"({one} {dice.choice(['//', '%'])} {dice.choice([3, 7, 100])})"
    return way.format(one, other)
