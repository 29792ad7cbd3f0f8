"""`kbsim sweep submit`: scripts of Slurm that, run shard by shard and merged, give the store of `kbsim sweep run`."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim
from tests.sweep_samples import SPEC, table_of

SBATCH = """#!/bin/sh
echo "$@" >> submitted.txt
echo 4{count}
"""


@pytest.fixture(autouse=True)
def _spec() -> None:
    Path("s.yaml").write_text(SPEC, encoding="utf-8")


def sbatch(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a program of this name first on the PATH, in place of Slurm's."""
    Path("bin").mkdir()
    Path("bin/sbatch").write_text(text, encoding="utf-8")
    Path("bin/sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path('bin').absolute()}:/usr/bin:/bin")


def command(script: str, shard: int = 0) -> list[str]:
    """The arguments of kbsim in a script, as a job of an array has them."""
    text = Path(script).read_text(encoding="utf-8").replace("$SLURM_ARRAY_TASK_ID", str(shard))
    (line,) = [line for line in text.splitlines() if line.startswith("exec ")]
    words = shlex.split(line)
    return words[words.index("sweep") :]


def test_the_shards_merged_are_the_whole(kbsim: Kbsim) -> None:
    assert kbsim("sweep", "submit", "s.yaml", "--shards", "3", "--store", "a b.sqlite", "--only-write").code == 0
    text = Path("a b.array.sh").read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n#SBATCH --array=1-3\n#SBATCH --cpus-per-task=1\n")
    for shard in (1, 2, 3):
        words = command("a b.array.sh", shard)
        at = words.index("--jobs")
        assert kbsim(*words[:at], "--threads", *words[at + 1 :]) == (0, "", "")
    assert kbsim(*command("a b.merge.sh")).code == 0
    assert kbsim("sweep", "run", "s.yaml", "--threads", "1", "--store", "whole.sqlite").code == 0
    assert table_of(Path("a b.sqlite")) == table_of(Path("whole.sqlite"))


def test_both_jobs_are_submitted_and_the_merge_waits(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch(monkeypatch, SBATCH.format(count="$(wc -l < submitted.txt)"))
    said = kbsim("sweep", "submit", "s.yaml", "--shards", "2", "--jobs", "4", "--sbatch=--time=2:00:00", "--json")
    told = json.loads(said.out)
    assert said.code == 0 and (told["array_job"], told["merge_job"]) == ("41", "42") and told["points"] == 6
    first, second = Path("submitted.txt").read_text(encoding="utf-8").splitlines()
    assert first == f"--parsable {told['script']}"
    assert second == f"--parsable --dependency=afterany:41 {told['merge_script']}"
    text = Path(told["script"]).read_text(encoding="utf-8")
    assert "#SBATCH --cpus-per-task=4\n" in text and "#SBATCH --time=2:00:00\n" in text and "--jobs 4" in text


def test_the_scripts_are_sound_shell(kbsim: Kbsim) -> None:
    assert kbsim("sweep", "submit", "s.yaml", "--shards", "2", "--store", "it's.sqlite", "--only-write").code == 0
    for script in ("it's.array.sh", "it's.merge.sh"):
        subprocess.run(["sh", "-n", script], check=True)


def test_without_sbatch_it_refuses_and_the_scripts_are_there(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path("empty").absolute()))
    said = kbsim("sweep", "submit", "s.yaml", "--shards", "2")
    assert said.code == 2 and "there is no sbatch on this computer" in said.err and "login node" in said.err
    assert Path("s.array.sh").exists() and Path("s.merge.sh").exists()


def test_what_sbatch_says_is_told(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch(monkeypatch, "#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n")
    said = kbsim("sweep", "submit", "s.yaml", "--shards", "2")
    assert said.code == 2 and "invalid partition" in said.err


@pytest.mark.parametrize(
    "more, message",
    [
        (["--shards", "7"], "the sweep has 6 points"),
        (["--shards", "2", "--sbatch", "long"], "it must be an option of sbatch"),
        (["--shards", "2", "--sbatch", "--a\nrm -r x"], "it must be an option of sbatch on one line"),
    ],
)
def test_what_cannot_be_submitted(kbsim: Kbsim, more: list[str], message: str) -> None:
    said = kbsim("sweep", "submit", "s.yaml", *more)
    assert said.code == 2 and message in said.err
    assert not Path("s.array.sh").exists()


def test_a_search_has_no_shards(kbsim: Kbsim) -> None:
    Path("f.yaml").write_text(SPEC + "search: {trials: 6}\n", encoding="utf-8")
    said = kbsim("sweep", "submit", "f.yaml", "--shards", "2")
    assert said.code == 2 and "it has no shards" in said.err
