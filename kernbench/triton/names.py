"""The public names of `triton.language`, and how each is supported. The page docs/reference/triton.md is made from this list.
"""

from __future__ import annotations

_COMPILER = "it is a type of Triton's compiler, and kernels run here as Python; leave it out"
#: names of Triton that are not supported: what to use instead
REFUSED: dict[str, str] = {
    "slice": "use x[:, None], tl.split, tl.gather or tl.load",
    "block_type": _COMPILER,
    "constexpr_type": _COMPILER,
    "tuple_type": _COMPILER,
    "tensor_descriptor_type": _COMPILER,
}
#: the same for `triton` itself
REFUSED_ON_HOST: dict[str, str] = {
    **dict.fromkeys(
        ("AsyncCompileMode", "FutureKernel"),
        "it belongs to Triton's compiler; launch kernels by kernel[grid](...)",
    ),
}
#: names that work differently than in Triton: the difference
DIFFERS: dict[str, str] = {
    "float8e4b15": "only the name exists; use of it is refused",
    "inline_asm_elementwise": "common PTX of one element a register; other instructions are refused by name",
    "float64": "has the rate of f32, unless the machine has one for 64 bits (`ve.f_a`, `te.f_a`)",
    "tensor": "made only by functions of tl",
    "tensor_descriptor": "made only by tl.make_tensor_descriptor",
    "dtype": "only the types of tl",
    "tuple": "a Python tuple",
    "store": "cache hints are ignored",
    "load": "masked lanes without other are 0, or poisoned under check=\"memory\"; cache hints are ignored",
    "dot": "f32 operands are rounded to tf32 only on request",
    "atomic_add": "old values of floats, and of what is pending, are pending",
    "atomic_max": "as atomic_add",
    "atomic_min": "as atomic_add",
    "atomic_and": "as atomic_add",
    "atomic_or": "as atomic_add",
    "atomic_xor": "as atomic_add",
    "atomic_xchg": "as atomic_add",
    "atomic_cas": "as atomic_add",
    "atomic_load": "only known integers can be a condition",
    "atomic_poll": "only for known integers",
    "uint64": "only known values can be divided, shifted right by pending numbers, and cast to floats",
    "map_elementwise": "both branches of an if are computed, at most 64 combinations",
    "dot_scaled": "operands are widened to 16 bits by the vector engine first",
    "bitonic_merge": "has the cost of sort",
    "philox": "as rand",
    "philox_impl": "as rand",
    "TRITON_MAX_TENSOR_NUMEL": "enforced under portable; else the scratchpad's size is the limit",
    "topk": "any k",
    "sort": "along any axis, except under portable",
    "target_info": "the target is no GPU: the functions is_... are false",
    "core": "has the names of tl, get_int_dtype and CONSTEXPR_0",
    "random": "has only the names of tl",
    "standard": "has the names of tl, _log2, _is_power_of_two and _get_int_dtype",
    "extra": "has libdevice (below)",
    "fdiv": "always rounded to nearest",
    "sum": "16-bit floats are added in f32, and rounded once",
    "gather": "a known index outside the range is an error",
    "cat": "keeps the order, even with can_reorder",
    "exp": "also takes 16-bit floats, except under portable",
    "log": "as exp",
    "sqrt": "as exp",
    "device_print": "lines are in `printed` of the run",
    "device_assert": "computed values are checked after the timing",
    "debug_barrier": "waits for all commands of the program",
    "static_range": "its integers are Python numbers",
    "umulhi": "only for known integers",
    "rand": "only for known offsets; its integers take no time",
    "randn": "as rand",
    "randint": "as rand",
    "randint4x": "as rand",
    "softmax": "one step of the vector engine",
    "make_block_ptr": "order is ignored; elements that boundary_check excludes are 0 without padding_option",
}
