"""Triton's tutorials up to their benchmarks, compared with PyTorch as they do it; some are made smaller."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FOLDER = Path(os.environ["KB_PEERS_CHECKOUT"]) / "python" / "tutorials"


def ran(name: str, *words: tuple[str, str], until: str = "@triton.testing.perf_report") -> dict[str, Any]:
    """The names of a tutorial after its code up to a line, with other sizes and devices."""
    path = FOLDER / name
    text = path.read_text(encoding="utf-8")
    for was, now in words:
        assert was in text, was
        text = text.replace(was, now)
    module = sys.modules["tutorial"] = ModuleType("tutorial")
    module.__file__ = str(path)
    short = Path(os.environ["KB_PEERS_OUT"]).with_name(path.name)  # kernels are read from their files
    short.write_text(text.partition(until)[0], encoding="utf-8")
    exec(compile(short.read_text(encoding="utf-8"), str(short), "exec"), module.__dict__)
    return module.__dict__


def test_01_vector_add() -> None:
    found = ran("01-vector-add.py", ("98432", "5000"))
    assert torch.equal(found["output_triton"], found["output_torch"])


def test_02_fused_softmax() -> None:
    found = ran("02-fused-softmax.py", ("torch.randn(1823, 781", "torch.randn(60, 781"))
    torch.testing.assert_close(found["y_triton"], found["y_torch"])


def test_03_matrix_multiplication() -> None:
    found = ran("03-matrix-multiplication.py", ("(512, 512)", "(96, 96)"), until="ref_lib = ")
    assert torch.allclose(found["triton_output"], found["torch_output"], atol=1e-2, rtol=0)


def test_04_low_memory_dropout() -> None:
    sys.modules.setdefault("tabulate", ModuleType("tabulate")).tabulate = str  # type: ignore[attr-defined]
    found = ran("04-low-memory-dropout.py")
    assert torch.equal(found["output"], found["output2"]) and not torch.equal(found["output"], found["output3"])
    kept = found["output"] != 0
    assert torch.equal(found["output"][kept], 2 * found["x"][kept])


@pytest.mark.parametrize("shape", [(30, 100), (17, 256)])
def test_05_layer_norm(shape: tuple[int, int]) -> None:
    ran("05-layer-norm.py")["test_layer_norm"](*shape, torch.float16)


@pytest.mark.parametrize(("causal", "mode", "provider"), [
    (False, "bwd", "triton-fp16"), (True, "bwd", "triton-fp16"), (True, "fwd", "triton-fp8"),
])  # fmt: skip
def test_06_fused_attention(causal: bool, mode: str, provider: str) -> None:
    ran("06-fused-attention.py")["test_op"](1, 1, 128, 64, causal, False, mode, provider)


def test_07_extern_functions() -> None:
    words = ("98432", "5000"), ("assert x.is_cuda and output_triton.is_cuda", "")
    found = ran("07-extern-functions.py", *words, until="# %%\n#  Customize")
    torch.testing.assert_close(found["output_triton"], found["output_torch"])


def test_08_grouped_gemm() -> None:
    """Both kernels; the one with descriptors, too, which the tutorial runs on a GPU with TMA only."""
    tma = "is_cuda() and torch.cuda.get_device_capability()[0] >= 9"
    ran("08-grouped-gemm.py", ("[1024, 512, 256, 128]", "[256, 128, 256, 128]"), (tma, "True"))


@pytest.mark.parametrize("kind", ["matmul", "matmul_persistent", "matmul_tma", "matmul_tma_persistent"])
def test_09_persistent_matmul(kind: str) -> None:
    found = ran("09-persistent-matmul.py", until="def bench_fn")
    torch.manual_seed(0)
    a, b = torch.randn(96, 64).half(), torch.randn(64, 80).half()
    more = () if kind in ("matmul", "matmul_persistent") else (False,)
    out = found[kind](a, b if not more else b.T.contiguous(), *more)
    torch.testing.assert_close(out.float(), a.float() @ b.float(), rtol=1e-2, atol=1e-2)


def test_11_programmatic_dependent_launch() -> None:
    found = ran("11-programmatic-dependent-launch.py")
    x, y = torch.rand(3000), torch.rand(3000)
    assert torch.equal(found["add"](x, y, launch_pdl=False), x + y)


ANY_GPU = ('device="cuda"', 'device="cpu"'), ('raise RuntimeError("This tutorial requires', 'print("This tutorial requires')


def test_gluon_01_intro() -> None:
    found = ran("gluon/01-intro.py", ANY_GPU[0], until='if __name__ == "__main__"')
    found["test_copy_scalar"]()
    found["test_memcpy"](64, 500)
    x = torch.randn(500)
    out = torch.empty_like(x)
    found["memcpy_autotune"](x, out)
    assert torch.equal(x, out)


def test_gluon_02_layouts() -> None:
    found = ran("gluon/02-layouts.py", ANY_GPU[0], ("__main__", "none of these"), until="no end")
    found["test_memcpy_1d"](256, 1000, 4)
    for transposed in (False, True):
        found["test_memcpy_2d"](128, 256, 100, 200, transposed, 4)
        found["test_memcpy_2d_inout"](300, 400, transposed, not transposed)


def test_gluon_03_asynchronous_copies() -> None:
    found = ran("gluon/03-async-copy.py", *ANY_GPU, ("__main__", "none of these"), until="no end")
    found["test_memcpy_1d_cpasync"](1000, 256)
    found["test_elementwise_add"](100, 200, 32, 32)
    found["test_elementwise_add_cpasync"](100, 200, 32, 32)
    for buffers in (1, 2, 3):
        found["test_elementwise_add_pipelined"](100, 400, 32, 64, buffers)


def test_gluon_04_tma() -> None:
    words = ('importlib.import_module("03-async-copy")', "None"), ("__main__", "none of these")
    found = ran("gluon/04-tma.py", *ANY_GPU, *words, until="no end")
    found["test_tma_message_passing"](16)
    found["test_memcpy_1d_tma"](64, 500)
    for buffers in (1, 2, 3):
        found["test_elementwise_add_pipelined"](100, 400, 32, 64, buffers)


def test_gluon_05_wgmma() -> None:
    """Refused by name, when the kernel uses the tensor cores of one kind of GPU."""
    found = ran("gluon/05-wgmma.py", *ANY_GPU, ("__main__", "none of these"), until="no end")
    with pytest.raises(AttributeError, match=r"gl\.NVMMADistributedLayout is not supported"):
        found["test_small_mma"](64, 32, 32, False, 16, 4)
