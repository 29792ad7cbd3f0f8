"""The timeline that a notebook shows: it loads nothing, has every job, and stays small."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import kernbench as kb
from kernbench.api import notebook
from kernbench.api.notebook import lanes_of
from tests.cli.samples import write_samples


@pytest.fixture(scope="module")
def run() -> kb.Run:
    return kb.run("llama2-7b-decode")


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" class="kb-data">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_every_job_is_in_the_timeline(run: kb.Run) -> None:
    lanes = lanes_of(run.timeline)
    shown = sorted(
        (lane.name, start, start + length) for lane in lanes.shown for track in lane.tracks for start, length in track.bars
    )
    assert lanes.left_out == 0
    rows = run.rows("jobs")
    assert {(name, start) for name, start, _ in shown} <= {(row["unit"], row["start"]) for row in rows}
    assert sum(sum(track.counts) for lane in lanes.shown for track in lane.tracks) == len(rows)


def test_tracks_never_overlap(run: kb.Run) -> None:
    for lane in lanes_of(run.timeline).shown:
        for track in lane.tracks:
            ends = np.add(track.starts, track.lengths)
            assert (np.asarray(track.starts[1:]) >= ends[:-1]).all(), lane.name


def test_the_page_loads_nothing(run: kb.Run) -> None:
    page = run._repr_html_()
    assert not re.search(r"https?:|src=|@import|url\(|fetch\(|<link", page)
    data = data_of(page)
    assert data["last"] == run.cycles and len(data["lanes"]) == 12  # type: ignore[arg-type]
    assert page == kb.run("llama2-7b-decode")._repr_html_()


def test_many_jobs_are_joined_and_many_engines_cut(run: kb.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MAX_SPANS", 100)
    monkeypatch.setattr(notebook, "MAX_LANES", 6)
    lanes = lanes_of(run.timeline)
    assert len(lanes.shown) == 6 and lanes.left_out == 6
    spans = sum(len(track.starts) for lane in lanes.shown for track in lane.tracks)
    assert 20 < spans <= 100
    assert "and 6 engines that had less to do" in run._repr_html_()


def test_the_answer_is_shown_once_it_is_known() -> None:
    run = kb.run("gemm", "npu_server")
    assert "kb-why\">" not in run._repr_html_()
    sentence = run.why().sentence
    assert sentence in run._repr_html_() and "69% of the run is TE work" in sentence


def test_names_of_strangers_do_no_harm(tmp_path: Path) -> None:
    program = kb.Program('</script><script>alert("x")</script>')
    program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=64, spm_bank=0, spm_offset=0)
    page = kb.run(program, "npu_mobile")._repr_html_()
    assert "<script>alert" not in page


def test_an_empty_run_and_a_stuck_one_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "nothing ran" in kb.run(kb.Program("nothing"), "small.yaml")._repr_html_()
    assert "deadlock" in kb.run("stuck.json", "small.yaml")._repr_html_()
