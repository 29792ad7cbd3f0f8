"""The pictures of the pages that the documentation keeps: `python -m tests.browser.screenshots`, in `docs/_static/pages`.

A WebP for each page, light and dark, at 1440 px and on a phone of 420 px.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

from kernbench.cli.main import exit_code
from kernbench.cmdq.program import Program
from kernbench.validate.page import page_bytes
from kernbench.validate.run import Options, Runner, run_suite
from tests.browser.chromium import Page, browser, missing, prefer

FOLDER = Path(__file__).parents[2] / "docs" / "_static" / "pages"
SIZES = {"desktop": (1440, 900), "phone": (420, 860)}
SCHEMES = ("light", "dark")
PAGES = ("trace", "pair", "sweep", "validation")
QUALITY = 82  #: of WebP
SUITES = ("systolic", "tensor", "vector", "dram", "collectives", "roofline")
LEVEL = ("--trace-level", "full", "--quiet")

SWEEP = """\
schema: kernbench/sweep/1
targets: [eight.json]
machine: npu_mobile
axes:
  dram.channels: [1, 2, 4, 8]
  te.macs_per_cycle: {from: 256, to: 4096, count: 5, scale: log}
  dma.max_concurrent_transfers: [2, 8]
where: ["te.macs_per_cycle <= 1024 * dram.channels"]
goals: {ns: min, energy_pj: min}
"""


def stored(name: str, size: str, scheme: str) -> str:
    """The name of a picture's file."""
    return f"{name}_{size}_{scheme}.webp"


def screenshots(folder: Path, pages: dict[str, Path]) -> list[Path]:
    """A picture of each page, in every size and both schemes; the files."""
    with tempfile.TemporaryDirectory() as place, browser(Path(place) / "profile") as page:
        return pictures(page, folder, pages, SIZES)


def pictures(page: Page, folder: Path, pages: dict[str, Path], sizes: dict[str, tuple[int, int]]) -> list[Path]:
    """The same in a browser that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for size, (width, height) in sizes.items():
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        for scheme in SCHEMES:
            prefer(page, scheme)
            for name, path in pages.items():
                made.append(folder / stored(name, size, scheme))
                made[-1].write_bytes(_taken(page, path))
    return made


def _taken(page: Page, path: Path) -> bytes:
    page.open(path)
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    if errors := page.errors():
        raise RuntimeError(f"{path.name}: {errors[0]}")
    found = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    return base64.b64decode(found["data"])


def made_pages(folder: Path) -> dict[str, Path]:
    """The pages of runs, of a sweep and of a validation, as the commands write them."""
    pages = {name: folder / f"{name}.html" for name in PAGES}
    traces = [str(folder / f"{name}.jsonl") for name in ("server", "slower")]
    # The second has DRAM channels of three quarters of the bandwidth.
    for trace, more in zip(traces, ((), ("--set", "dram.peak_bw_bytes_per_cycle=76.8")), strict=True):
        _kbsim("run", "llama2-7b-decode", "--config", "npu_server", *more, "--trace", trace, *LEVEL)
    _kbsim("trace", "report", traces[0], "-o", str(pages["trace"]))
    _kbsim("trace", "report", *traces, "-o", str(pages["pair"]))
    _program(folder / "eight.json")
    (folder / "size.yaml").write_text(SWEEP, encoding="utf-8")
    _kbsim("sweep", "run", str(folder / "size.yaml"), "--store", str(folder / "size.sqlite"), "--quiet")
    _kbsim("sweep", "report", str(folder / "size.sqlite"), "--why", "3", "--html", str(pages["sweep"]))
    pages["validation"].write_bytes(page_bytes([run_suite(name, Runner(Options(quick=True))) for name in SUITES]))
    return pages


def _kbsim(*arguments: str) -> None:
    if exit_code(list(arguments)):
        raise RuntimeError(f"kbsim {' '.join(arguments)} failed")


def _program(path: Path) -> None:
    """The program of the tutorial on sweeps."""
    program = Program("eight")
    for i in range(8):
        loaded = program.dma_load(
            tensor_role="weight", qbits=4, dram_addr=i * 65536, num_elements=65536, spm_bank=0, spm_offset=(i % 2) * 32768
        )
        product = program.te_gemm(
            m=64, n=256, k=256, qbits_weight=4, qbits_activation=8, ifm_bank=2, ifm_offset=0, wgt_bank=0,
            wgt_offset=(i % 2) * 32768, ofm_bank=4, ofm_offset=(i % 2) * 16384, te_id=i % 2, deps_before=[loaded],
        )  # fmt: skip
        program.ve_softmax(
            length=256, batch=64, qbits_activation=8, in_bank=4, in_offset=(i % 2) * 16384, out_bank=6,
            out_offset=(i % 2) * 16384, deps_before=[product],
        )  # fmt: skip
    program.end()
    program.save(str(path))


if __name__ == "__main__":
    if missing():
        sys.exit(missing())
    with tempfile.TemporaryDirectory() as place:
        print(*screenshots(FOLDER, made_pages(Path(place))), sep="\n")
