"""What a user sees of a kernel that fails, is looked at, or is interrupted."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.common.errors import InputError
from kernbench.components.builtin.pe_dma import TransferError
from kernbench.sim_engine.engine import KernelFailed
from kernbench.testing.evaluate import evaluate
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.launch import PeWork
from tests.kernels import Run, at

A = np.arange(256, dtype=np.float32).reshape(16, 16)


def test_an_exception_ends_the_run_with_the_kernels_traceback() -> None:
    def inner(tile: Any) -> Any:
        return tile[99]

    def kernel(tl: Any) -> None:
        inner(tl.load(0, (16, 16), "f32"))

    run = Run(kernel, memory={0: A}, programs=(2,), grid=(4,))
    error = run.fail()
    assert isinstance(error, IndexError)
    failure = run.machine.failure()
    assert failure is not None and failure["component"] == "pe_cpu"
    shown = failure["traceback"].splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[1].endswith(f"line {at(kernel, 1).partition(':')[2]}, in kernel")
    assert [line for line in shown if "test_kernel_errors.py" in line][1].endswith("in inner")
    assert shown[-1] == "in program 2 of kernel on pe0, cycle 17"
    assert run.machine.cycle == 17 and not any("pe_cpu.py" in line for line in shown)


def test_the_hosts_program_fails_the_same_way() -> None:
    def body(host: Any) -> None:
        host.launch("it", [PeWork("pe0", lambda tl: tl.load(0, (16, 16), "f32"))])
        host.wait()
        raise RuntimeError(f"after cycle {host.cycle}")

    run = Run(body=body, memory={0: A})
    # The kernel has ended before cycle 17, its job with it; the host goes on in the next.
    assert str(run.fail()) == "after cycle 18"
    failure = run.machine.failure()
    assert failure is not None and failure["component"] == "host"
    assert failure["traceback"].splitlines()[-1] == "RuntimeError: after cycle 18"


CANNOT: list[tuple[Any, type[Exception], str]] = [
    (
        lambda tl: tl.load(4096, (4,), "f32"),
        KernelError,
        "{}: the load of t1 reads bytes that were never written: hbm[0x1000]: of the 16 bytes from here on the one at 0x1000 "
        "was never written",
    ),
    (
        lambda tl: tl.load(1 << 40, (4,), "f32"),
        TransferError,
        "{}: bytes [0x10000000000, 0x10000000010) are in no memory: the memory has 1073741824 bytes",
    ),
    (lambda tl: tl.load(0, (3,), "i4"), KernelError, "{}: a tensor of i4[3]: 3 elements of i4 do not fill whole bytes"),
    (
        lambda tl: tl.load(0, (4,), "f12"),
        KernelError,
        '{}: a tensor of f12[4]: dtype: dtype = "f12", but it must be one of f32, f16, bf16, f8e4m3, f8e5m2, f64, f8e4m3fnuz, '
        "f8e5m2fnuz, i64, i32, i16, i8, u32, u16, u8, i4, bool",
    ),
    (lambda tl: tl.load(0, (4, 4), "f32", strides=(16,)), KernelError, "{}: 1 strides are given for the 2 axes of [4, 4]"),
    (lambda tl: tl.load("x", (4,), "f32"), KernelError, "{}: an address must be an integer, and this is a str"),
    (
        lambda tl: tl.load(0, (4,), "f32", channel="kv"),
        KernelError,
        "{}: a DMA engine has the channels act_weight, kv_load, kv_store, and not kv",
    ),
    (lambda tl: tl.store(0, 3), KernelError, "{}: an operand must be a tensor of tl, and this is a int"),
    (
        lambda tl: tl.dot(tl.zeros((4, 4), "f32"), tl.zeros((3, 4), "f32")),
        KernelError,
        "{}: dot of shapes (4, 4) and (3, 4): a has 4 columns and b has 3 rows",
    ),
    (
        lambda tl: tl.add(tl.zeros((4, 4), "f32"), tl.zeros((3,), "f32")),
        KernelError,
        "{}: add of tensors whose shapes do not fit: [4, 4], [3]",
    ),
    (lambda tl: tl.add(1, 2), KernelError, "{}: add takes at least one tensor of tl"),
    (lambda tl: tl.exp("x"), KernelError, "{}: an operand must be a tensor of tl or a number, and this is a str"),
    (lambda tl: tl.sum(tl.zeros((4,), "f32"), axis=1), KernelError, "{}: sum along axis 1 of [4]: it has 1 axes"),
    (lambda tl: tl.sum(tl.zeros((4,), "f32"), axis=0.5), KernelError, "{}: sum along axis 0.5: an axis is an integer"),
    (lambda tl: tl.cumsum(tl.zeros((4,), "f32"), axis=None), KernelError, "{}: cumsum along axis None: an axis is an integer"),
    (lambda tl: tl.softmax(tl.zeros((4,), "f32"), axis=""), KernelError, "{}: softmax along axis '': an axis is an integer"),
    (lambda tl: tl.cumsum(tl.zeros((4,), "f32"), axis=1), KernelError, "{}: cumsum along axis 1 of [4]: it has 1 axes"),
    (lambda tl: tl.cumprod(3), KernelError, "{}: cumprod needs a tensor of tl, and x is of type int"),
    (
        lambda tl: tl.sum(tl.zeros((4,), "f32") * 2.0, materialize=True),
        KernelError,
        "{}: sum cannot be materialized: t2 ({}) is pending itself",
    ),
    (
        lambda tl: tl.exp(tl.load(0, (16, 16), "f32"), materialize=True),
        KernelError,
        "{}: exp has 256 elements; at most 64 are materialized in Phase 1",
    ),
]


@pytest.mark.parametrize(("do", "kind", "text"), CANNOT)
def test_what_a_kernel_cannot_do(do: Any, kind: type[Exception], text: str) -> None:
    error = Run(do, memory={0: A}).fail()
    assert type(error) is kind
    line = at(do, 0)  # lambdas stand in one line
    assert str(error) == text.format(line, line)


SCRIPT = """
    import numpy as np
    from tests.kernels import Run

    def kernel(tl):
        x = tl.load(0, (4,), "i32")
        {}
        tl.store(64, x + 1)

    run = Run(kernel, memory={{0: np.arange(4, dtype=np.int32)}})
    run.run()
    print("stored", run.store.read("hbm", 64).tolist(), run.machine.cycle)
"""


def script(tmp_path: Path, line: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT).format(line), encoding="utf-8")
    root = Path(__file__).parents[2]
    code = f"import sys, runpy; sys.path.insert(0, {str(root)!r}); runpy.run_path({str(file)!r})"
    return subprocess.run([sys.executable, "-c", code], input=stdin, capture_output=True, text=True, check=False)


def test_a_breakpoint_stops_inside_a_kernel(tmp_path: Path) -> None:
    """The debugger sees the kernel's variables, steps over lines that wait for the machine, and goes on."""
    plain = script(tmp_path, "pass")
    assert plain.stdout == "stored [1, 2, 3, 4] 4\n", plain.stderr
    commands = "p x.tolist()\nx[0]\nup\ndown\nn\np 'after the store'\nc\n"
    debugged = script(tmp_path, "breakpoint()", commands)
    assert debugged.returncode == 0, debugged.stderr
    assert "[0, 1, 2, 3]" in debugged.stdout and "'after the store'" in debugged.stdout
    assert "-> tl.store(64, x + 1)" in debugged.stdout
    assert debugged.stdout.endswith("stored [1, 2, 3, 4] 4\n")


def test_an_interrupt_is_one(tmp_path: Path) -> None:
    """Ctrl-C in a kernel is no failure of the kernel: it goes through."""
    stopped = script(tmp_path, "raise KeyboardInterrupt")
    assert stopped.returncode != 0 and stopped.stderr.rstrip().endswith("KeyboardInterrupt")
    assert "failed" not in stopped.stderr


def test_a_machine_with_kernels_cannot_be_saved() -> None:
    run = Run(lambda tl: None, memory={0: A})
    with pytest.raises(InputError) as caught:
        run.machine.snapshot()
    assert str(caught.value) == (
        "checkpoint: component Host: a host program cannot be saved as bytes: keep its inputs and the cycle, "
        "and run there again"
    )


def leaves(tl: Any) -> None:
    sys.exit(3)


def yields(tl: Any) -> Any:
    yield tl.load(0, (4,), "f32")


def odd(tl: Any) -> None:
    tl.load(2, (4,), "f32")


def odd_of_numpy(tl: Any) -> None:
    tl.load(np.int64(2), (4,), "f32")  # type: ignore[arg-type]


def far(tl: Any) -> None:
    tl.load(1 << 70, (4,), "f32")


def negative(tl: Any) -> None:
    tl.load(0, (-4,), "f32")


def empty(tl: Any) -> None:
    tl.load(0, (0, 4), "f32")


def empty_part(tl: Any) -> None:
    tl.part(tl.load(0, (4,), "f32"), 4, 0)


def empty_whole(tl: Any) -> None:
    tl.ref(0, (4, 0), "f32")


def empty_result(tl: Any) -> None:
    tl.cast(tl.arange(5, 2), "f32")


def odd_stride(tl: Any) -> None:
    tl.store(0, tl.load(0, (1, 2), "f32", strides=(2, 6)))


def half_stride(tl: Any) -> None:
    tl.load(0, (2, 2), "f32", strides=(8, 4.5))


def bits_of_floats(tl: Any) -> None:
    tl.load(0, (4,), "f32") & 1


def no_bits(tl: Any) -> None:
    ~tl.load(0, (4,), "f16")


def no_bits_of_all(tl: Any) -> None:
    tl.composite("math", tl.ref(0, (4,), "f32"), out_ptr=0, math_op="not")


def sums_of_nothing(tl: Any) -> None:
    tl.sum(tl.load(0, (4,), "f32"), dtype_acc="f80")


def products_of_nothing(tl: Any) -> None:
    tl.dot(tl.load(0, (2, 2), "f32"), tl.load(0, (2, 2), "f32"), dtype_acc="float32")


def one_axis(tl: Any) -> None:
    tl.transpose(tl.load(0, (4,), "f32"))


def other_axis(tl: Any) -> None:
    tl.program_id(-1)


def third_axis(tl: Any) -> None:
    tl.num_programs(2)


def of_a_float(tl: Any) -> None:
    tl.zeros((4, 4.0), "f32")  # type: ignore[arg-type]


def of_text(tl: Any) -> None:
    tl.load(0, "16", "f32")


def for_nothing(tl: Any) -> None:
    tl.wait_any()


def for_a_number(tl: Any) -> None:
    tl.wait_any(5)


TYPES = "f32, f16, bf16, f8e4m3, f8e5m2, f64, f8e4m3fnuz, f8e5m2fnuz, i64, i32, i16, i8, u32, u16, u8, i4, bool"
NONE = "has no elements, and a command needs one at least"


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (leaves, f"{at(leaves, 1)}: the kernel leaves called exit(3); it ends when it returns"),
        (yields, "the kernel yields is a generator, so nothing of it has run; make it a plain function (no yield, no async)"),
        (odd, f"{at(odd, 1)}: the address 0x2 is not a multiple of the 4 bytes of a f32"),
        (odd_of_numpy, f"{at(odd_of_numpy, 1)}: the address 0x2 is not a multiple of the 4 bytes of a f32"),
        (far, f"{at(far, 1)}: the address {1 << 70:#x} is in no memory: addresses have at most 62 bits"),
        (negative, f"{at(negative, 1)}: a tensor of f32[-4]: a size is negative"),
        (empty, f"{at(empty, 1)}: a tensor of f32[0, 4] {NONE}"),
        (
            empty_part,
            f"{at(empty_part, 1)}: 0 elements from 4 on are no part of t1 f32[4] ({at(empty_part, 1)}), which has 4",
        ),
        (empty_whole, f"{at(empty_whole, 1)}: a tensor of f32[4, 0] {NONE}"),
        (empty_result, f"{at(empty_result, 1)}: a tensor of i32[0] {NONE}"),
        (odd_stride, f"{at(odd_stride, 1)}: the stride 6 is not a multiple of the 4 bytes of a f32"),
        (half_stride, f"{at(half_stride, 1)}: strides are integers, one an axis, and not (8, 4.5)"),
        (bits_of_floats, f"{at(bits_of_floats, 1)}: and takes integers and truth values, and not f32"),
        (no_bits, f"{at(no_bits, 1)}: not takes integers and truth values, and not f16"),
        (no_bits_of_all, f"{at(no_bits_of_all, 1)}: not takes integers and truth values, and not f32"),
        (sums_of_nothing, f"{at(sums_of_nothing, 1)}: dtype_acc = 'f80', but it must be one of {TYPES}"),
        (products_of_nothing, f"{at(products_of_nothing, 1)}: dtype_acc = 'float32', but it must be one of {TYPES}"),
        (one_axis, f"{at(one_axis, 1)}: transpose swaps the last two axes, and [4] has 1"),
        (other_axis, f"{at(other_axis, 1)}: program_id(-1): the grid is 1, and has the axis 0"),
        (third_axis, f"{at(third_axis, 1)}: num_programs(2): the grid is 1, and has the axis 0"),
        (of_a_float, f"{at(of_a_float, 1)}: a shape must be an integer or a tuple of integers, and this is (4, 4.0)"),
        (of_text, f"{at(of_text, 1)}: a shape must be an integer or a tuple of integers, and this is '16'"),
        (for_nothing, f"{at(for_nothing, 1)}: tl.wait_any takes at least one thing to wait for"),
        (for_a_number, f"{at(for_a_number, 1)}: tl.wait_any takes tensors and what tl.store returns, and not a int"),
    ],
)
def test_a_kernel_that_is_no_program_is_told_so(kernel: Any, text: str) -> None:
    error = Run(kernel, memory={0: np.zeros(16, np.float32)}).fail()
    assert type(error) is KernelError and str(error) == text


def test_a_host_program_that_exits_or_yields_is_told_so() -> None:
    def exits(host: Any) -> None:
        sys.exit("enough")

    error = f"{at(exits, 1)}: the host's program called exit('enough'); it ends when it returns"
    assert str(Run(body=exits).fail()) == error


OTHER_TYPE = (
    "tensor0 has elements of type f64, but is accessed as f32; use its type (f64) and convert tiles with tl.cast, or create "
    "the tensor with type f32. To reinterpret its bytes, pass a plain address, int(pointer)"
)


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x, tl: tl.load(x, (4,), "f32"),
        lambda x, tl: tl.store(x, tl.zeros((4,), "f32")),
        lambda x, tl: tl.composite("math", tl.ref(x, (4,), "f64"), out_ptr=x, math_op="exp", out_dtype="f32"),
        lambda x, tl: tl.composite("math", tl.ref(x, (4,), "f32"), out_ptr=x, math_op="exp"),
    ],
)
def test_a_pointer_has_an_element_type(kernel: Any) -> None:
    """A load of f32 from an array of f64 returned the halves of its elements."""
    with pytest.raises(KernelFailed) as caught:
        evaluate(kernel, np.ones(4))
    assert str(caught.value).endswith(f"{Path(__file__).name}:{kernel.__code__.co_firstlineno}: {OTHER_TYPE}")


def test_other_names_of_the_type_and_plain_addresses_are_not_refused() -> None:
    ones = np.ones(4, np.float32)
    assert evaluate(lambda x, tl: tl.load(x, (4,), "float32"), ones).tolist() == [1, 1, 1, 1]
    for plain in (int, lambda x: x + 0):
        assert evaluate(lambda x, tl: tl.load(plain(x), (4,), "i32"), ones).tolist() == [0x3F800000] * 4  # noqa: B023
