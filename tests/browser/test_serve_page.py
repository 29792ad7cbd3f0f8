"""The page of a served workload in a browser: it fits every width, and its plots keep most of a phone's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.cli.serve.page import page_bytes
from kernbench.serving import ContinuousBatching, EngineOptions, Request, fixed_step, simulate
from tests.browser.chromium import browser, missing


def test_the_page_fits_every_width(tmp_path: Path) -> None:
    if missing():
        pytest.skip(missing())
    engine = ContinuousBatching(EngineOptions(num_gpu_blocks=24, max_model_len=256, max_num_seqs=8))
    load = [Request(i, arrival_ns=i * 3_000_000, prompt=80, output=40) for i in range(60)]
    result = simulate(load, engine, fixed_step(1_000_000))
    told = {"model": "tiny", "machine": "npu.yaml", "num_gpu_blocks": 24, "block_size": 16, "max_model_len": 256}
    told |= {"table": None, "cost": None, "energy": None}
    (tmp_path / "page.html").write_bytes(page_bytes({**told, "goals_ms": {}, **result.to_dict()}, result))
    with browser(tmp_path / "profile") as page:
        for width in (1440, 420):
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            page.open(tmp_path / "page.html")
            assert page.errors() == [] and page.run("return document.documentElement.scrollWidth <= innerWidth")
            sizes = "[...document.querySelectorAll('body *')].map((one) => parseFloat(getComputedStyle(one).fontSize))"
            assert page.run(f"return Math.min(...{sizes})") >= 11
            assert page.run("return document.querySelectorAll('.field path.area, .field path.line').length") == 8
        assert page.run("return document.querySelector('.field').getBoundingClientRect().width") >= 0.75 * 420
        dark = "document.getElementById('theme').click(); return document.documentElement.dataset.theme"
        assert page.run(dark) == "dark"
