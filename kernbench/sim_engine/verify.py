"""Are the numbers right (seed ADR-0020 D11): tensors against a reference, by the tolerances of their element types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from kernbench.common.dtypes import DTYPES, Array, dtype_of, nbytes_of, widen
from kernbench.common.errors import InputError, Problem
from kernbench.sim_engine.memory.keys import TOP
from kernbench.sim_engine.memory.ranges import RangeMap
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpRecord, Output, row_of
from kernbench.sim_engine.ops.provenance import blame
from kernbench.sim_engine.ops.ranges import ReplayOp

#: (rtol, atol) of `|got - expected| <= atol + rtol * |expected|`. Types that are not here are integers: they must be equal.
#: Of f8 it is one step to the neighbouring number, at any size (2 to the minus mantissa bits, and the smallest subnormal):
#: a sum that lies at the border of two numbers may be rounded to either, depending on the order of adding.
TOLERANCES: dict[str, tuple[float, float]] = {
    "f64": (1e-10, 1e-10),
    "f32": (1e-5, 1e-5),
    "f16": (1e-3, 1e-3),
    "bf16": (1e-2, 1e-2),
    "f8e4m3": (2.0**-3, 2.0**-9),
    "f8e5m2": (2.0**-2, 2.0**-16),
}

OpReference: TypeAlias = Callable[[OpRecord, Sequence[Array]], Array | None]


@dataclass(frozen=True, eq=False)
class Boundary:
    """The data that one op read and wrote."""

    record: OpRecord
    inputs: Sequence[Array]
    result: Array
    known: Array | None = None  #: the result, where Phase 1 computed it as well


@dataclass(frozen=True)
class Failure:
    """One tensor that is not as expected. Without an `index` the whole tensor is not: `reason` says why."""

    tensor: str
    reason: str = ""
    index: tuple[int, ...] | None = None  #: of the first element that differs
    expected: Any = None
    got: Any = None
    tolerance: str = ""
    differing: int = 0
    elements: int = 0
    ops: tuple[str, ...] = ()  #: ops from the writer of that element back to the one that computed it
    line: str = ""  #: the kernel's source line of the op that made it

    def __str__(self) -> str:
        if self.index is None:
            text = f"{self.tensor}: {self.reason}"
        else:
            at = ", ".join(map(str, self.index))
            text = f"{self.tensor}[{at}]: expected {self.expected}, got {self.got} ({self.tolerance})"
            text += f"; {self.differing:,} of {self.elements:,} elements differ"
        return text + "".join(f"; {one}" for one in self.ops)


@dataclass(frozen=True)
class Verification:
    """The outcome of a comparison with a reference. Its truth value is `ok`.

    >>> import kernbench as kb
    >>> report = kb.run("vector_add", n=4096, verify=True).report
    >>> print(report.verification)
    1 of 1 tensors as expected
    """

    checked: tuple[str, ...]
    failures: tuple[Failure, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every tensor is as expected."""
        return not self.failures

    @property
    def exit_code(self) -> int:
        """The exit code of a command: 0, or 1 if a tensor differs."""
        return 0 if self.ok else 1

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        right = len(self.checked) - len(self.failures)
        return "\n".join([f"{right} of {len(self.checked)} tensors as expected", *map(str, self.failures)])

    def joined(self, other: Verification) -> Verification:
        """Both comparisons as one."""
        return Verification(self.checked + other.checked, self.failures + other.failures)


def tolerance_text(dtype: str) -> str:
    """The rule by which a type is compared: `f16: rtol 0.001, atol 0.001`, `i8: exact`."""
    if dtype not in TOLERANCES:
        return f"{dtype}: exact"
    return "{}: rtol {:g}, atol {:g}".format(dtype, *TOLERANCES[dtype])


def differences(got: Array, expected: Array, dtype: str) -> Array:
    """A mask of the elements of two arrays that differ by the rule of their type; NaN equals NaN."""
    if dtype not in TOLERANCES:
        return np.asarray(np.not_equal(_plain(got), _plain(expected)))
    rtol, atol = TOLERANCES[dtype]
    exact, wanted = (np.asarray(_plain(one), np.float64) for one in (got, expected))
    return np.asarray(np.logical_not(np.isclose(exact, wanted, rtol, atol, equal_nan=True)))


def _plain(array: Array) -> Array:
    """Elements that numpy can compare: those of ml_dtypes are widened."""
    return widen(array) if array.dtype.name in _WIDENED else array


_WIDENED = tuple(DTYPES[name].numpy.name for name in ("bf16", "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "i4"))


def compare(name: str, got: Array, expected: Array, dtype: str) -> Failure | None:
    """The failure of a tensor, without its cause; None if it is as expected."""
    expected = np.asarray(expected)
    if got.shape != expected.shape:
        return Failure(name, f"its shape is {got.shape}, and that of the reference {expected.shape}")
    wrong = differences(got, expected, dtype)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return Failure(name, "", index, expected[index], got[index], tolerance_text(dtype), count, got.size)


def verify_outputs(
    store: MemoryStore, log: Iterable[OpRecord], outputs: Sequence[Output], expected: Array | Mapping[str, Array]
) -> Verification:
    """Compare tensors of a store with the expected ones. Raises InputError if it is not clear which is which."""
    pairs = _paired(log, outputs, expected)
    failures = []
    for output, array in pairs:
        try:
            got = store.read(output.space, output.addr, output.shape, output.dtype)
        except ValueError as error:
            failures.append(Failure(output.name, f"it is not there: {error}"))
            continue
        failure = compare(output.name, got, array, dtype_of(output.dtype).name)
        if failure is not None:
            failures.append(_blamed(failure, output, log))
    return Verification(tuple(output.name for output, _ in pairs), tuple(failures))


def _blamed(failure: Failure, output: Output, log: Iterable[OpRecord]) -> Failure:
    """The failure with the ops that the element came from."""
    if failure.index is None:
        return failure
    element = int(np.ravel_multi_index(failure.index, output.shape)) if output.shape else 0
    ops = blame(log, output.space, output.addr + element * dtype_of(output.dtype).bits // 8)
    said = tuple(f"{'computed' if op.record.op_kind != 'memory' else 'moved'} by {op}" for op in ops)
    line = ops[-1].params.get("line", "") if ops else ""
    return Failure(**{**_fields(failure), "ops": said or ("no op of the log wrote it",), "line": line})


def _fields(failure: Failure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in failure.__dataclass_fields__}


def _paired(
    log: Iterable[OpRecord], outputs: Sequence[Output], expected: Array | Mapping[str, Array]
) -> list[tuple[Output, Array]]:
    if not isinstance(expected, Mapping):
        array = np.asarray(expected)
        if len(outputs) > 1:
            names = ", ".join(one.name for one in outputs)
            raise InputError(Problem("verify", f"one array is given for {len(outputs)} outputs", remedy=f"name them: {names}"))
        return [(outputs[0] if outputs else _only_result(log, array), array)]
    known = {one.name: one for one in outputs}
    for name in expected:
        if name not in known:
            there = ", ".join(known) or "none is named"
            raise InputError(Problem("verify", f"there is no output with this name; outputs: {there}", "expected", name))
    return [(known[name], array) for name, array in expected.items()]


def _only_result(log: Iterable[OpRecord], expected: Array) -> Output:
    """The one range of HBM that ops write, as a tensor of the reference's shape; InputError if there is not one."""
    written = RangeMap()
    for record in log:
        if record.op_kind == "unknown" or record.op_name == "memory_write":
            continue
        for space, start, end in ReplayOp(row_of(record), 0).writes:
            if space == "hbm":
                written.put(start, end, record.params.get("dtype_out") or record.params.get("dtype") or "u8")
    found = written.over(0, TOP)
    remedy = "name the outputs: DataExecutor(op_log, outputs=[Output(...)])"
    apart = sum(1 for one, after in pairwise(found) if one[1] != after[0] or one[2] != after[2])
    if not found or apart:
        ranges = "nothing" if not found else f"{apart + 1} ranges"
        raise InputError(Problem("verify", f"the log writes {ranges} of HBM, and one array is given", remedy=remedy))
    start, dtype, size = found[0][0], found[0][2], found[-1][1] - found[0][0]
    if nbytes_of(expected.shape, dtype) != size:
        rule = f"the log writes {size} bytes of HBM, and {expected.shape} of {dtype} takes {nbytes_of(expected.shape, dtype)}"
        raise InputError(Problem("verify", rule, remedy=remedy))
    return Output(f"hbm[{start:#x}]", "hbm", start, expected.shape, dtype)


def verify_ops(
    known: Sequence[Boundary], boundaries: Sequence[Boundary], ops: Mapping[int, Array] | OpReference | None
) -> Verification:
    """Compare results of single ops: those that Phase 1 computed too, and those that `ops` has a reference for."""
    pairs = [(one, one.known) for one in known if one.known is not None]
    for one in boundaries if ops is not None else ():
        wanted = ops(one.record, one.inputs) if callable(ops) else (ops or {}).get(one.record.op_id)
        if wanted is not None:
            pairs.append((one, np.asarray(wanted)))
    failures = []
    for boundary, array in pairs:
        op = ReplayOp(row_of(boundary.record), boundary.record.op_id)
        failure = compare(_op_name(boundary), boundary.result, array, dtype_of(boundary.result.dtype).name)
        if failure is not None:
            said = {**_fields(failure), "ops": (f"computed by {op}",), "line": op.params.get("line", "")}
            failures.append(Failure(**said))
    return Verification(tuple(_op_name(one) for one, _ in pairs), tuple(failures))


def _op_name(boundary: Boundary) -> str:
    return f"op {boundary.record.op_id}"
