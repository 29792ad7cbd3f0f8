"""`kbsim validate caches`: what is compared, and that a wrong cache is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import Skipped, SuiteData, read_suite_data
from kernbench.validate.suites import caches

BANDWIDTH = "id,chip,data_set_kb,measured,unit\n0,l40,4608,5170,GB/s\n1,l40,100352,4294,GB/s\n2,l40,232960,844,GB/s\n"
LATENCY = "id,chip,clock_mhz,data_set_kb,measured,unit\n" + "".join(
    f"{k},l40,2490,{size},{cycles},cycles per load\n"
    for k, (size, cycles) in enumerate([(8, 34), (150, 273.6), (2300, 273.6), (8600, 273.6), (139000, 622.7), (682000, 624.6)])
)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "microbench"
    folder.mkdir()
    (folder / "shared_cache_bandwidth.csv").write_text(BANDWIDTH)
    (folder / "load_latency.csv").write_text(LATENCY)
    return tmp_path


def verdicts(data: SuiteData, folder: Path) -> dict[str, str]:
    return {row.case: row.verdict for row in caches.rows(data, Runner(Options(chip_tables=folder)))}


def test_sets_that_fit_and_sets_that_do_not_are_judged(tables: Path) -> None:
    data = read_suite_data("caches")
    found = verdicts(replace(data, facts={**(data.facts or {}), "chips": ["l40"]}), tables)
    assert found == {
        "l40: 4,608 KB, bandwidth": "pass", "l40: 100,352 KB, bandwidth": "info", "l40: 232,960 KB, bandwidth": "pass",
        "l40: 2,300 KB, latency": "pass", "l40: 8,600 KB, latency": "pass", "l40: 139,000 KB, latency": "pass",
    }  # fmt: skip


def test_a_cache_of_another_bandwidth_is_outside(tables: Path) -> None:
    data = read_suite_data("caches")
    (tables / "microbench" / "shared_cache_bandwidth.csv").write_text(BANDWIDTH.replace("5170", "2600"))
    found = verdicts(replace(data, facts={**(data.facts or {}), "chips": ["l40"]}), tables)
    assert found["l40: 4,608 KB, bandwidth"] == "fail"


def test_without_tables_it_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match="folder of chip tables"):
        list(caches.rows(read_suite_data("caches"), Runner(Options(chip_tables=tmp_path))))
