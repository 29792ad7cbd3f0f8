"""Sweeps on Slurm without Dask: an array of jobs with one shard each, and a job that merges the stores of the shards."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import write_whole

COMMAND = "kbsim sweep submit"
MAX_SHARDS = 100_000
_SUBMITTED = re.compile(r"([0-9]+)(;.*)?")  # output of `sbatch --parsable`: the job, and the cluster if there are several
_KBSIM = "from kernbench.cli.main import main; main()"


@dataclass(frozen=True)
class Array:
    """The two jobs of a sweep."""

    spec: Path
    store: Path
    shards: int
    jobs: int  #: number of processes of a shard
    options: tuple[str, ...] = ()  #: options of sbatch, such as `--partition=long`
    allow_code: tuple[str, ...] = ()

    @property
    def script(self) -> Path:
        """The path of the array's script; the script of the merge is in the same folder."""
        return self.store.with_suffix(".array.sh")

    @property
    def merge_script(self) -> Path:
        """The path of the merge's script."""
        return self.store.with_suffix(".merge.sh")

    def shard_store(self, shard: str) -> str:
        """The store of a shard; the shard's number is a shell variable."""
        return f"{shlex.quote(str(self.store.with_suffix('')))}.shard-{shard}.sqlite"

    def array_text(self) -> str:
        """The text of the array's script. A shard that is submitted again runs only the points that its store does not have."""
        run = [*_kbsim(), "sweep", "run", str(self.spec), "--jobs", str(self.jobs), "--quiet"]
        for path in self.allow_code:
            run += ["--allow-code", path]
        head = [f"--array=1-{self.shards}", f"--cpus-per-task={self.jobs}", f"--job-name={_name(self.spec)}", *self.options]
        store = self.shard_store('"$SLURM_ARRAY_TASK_ID"')
        return _script(head, f'{shlex.join(run)} --shard "$SLURM_ARRAY_TASK_ID/{self.shards}" --store {store}')

    def merge_text(self) -> str:
        """The text of the merge's script, which runs when all shards are done."""
        merge = shlex.join([*_kbsim(), "sweep", "merge", str(self.store)])
        stores = " ".join(self.shard_store(str(shard)) for shard in range(1, self.shards + 1))
        return _script([f"--job-name={_name(self.spec)}-merge", *self.options], f"{merge} {stores}")

    def write(self) -> None:
        """Write both scripts."""
        for place, text in ((self.script, self.array_text()), (self.merge_script, self.merge_text())):
            write_whole(place, text.encode(), program=True)

    def submit(self) -> tuple[str, str]:
        """Submit both jobs and return their numbers. InputError if sbatch does not exist or refuses a job."""
        if shutil.which("sbatch") is None:
            rule = f"there is no sbatch on this computer; {self.script} and {self.merge_script} are written"
            remedy = f"run the command on a login node of the cluster, or sbatch {self.script} there"
            raise InputError(Problem(COMMAND, rule, remedy=remedy))
        array = _sbatch([str(self.script)])
        return array, _sbatch([f"--dependency=afterany:{array}", str(self.merge_script)])


def _kbsim() -> list[str]:
    """The command of this Python, because nodes need not have it on their PATH."""
    return [sys.executable, "-P", "-c", _KBSIM]


def _name(spec: Path) -> str:
    """A job's name, reduced to characters that Slurm accepts without quoting."""
    return "kernbench-" + re.sub(r"[^A-Za-z0-9_.-]", "_", spec.stem)


def _script(options: list[str], command: str) -> str:
    lines = "".join(f"#SBATCH {option}\n" for option in options)
    return f"#!/bin/sh\n{lines}set -e\nexec {command}\n"


def _sbatch(arguments: list[str]) -> str:
    try:
        done = subprocess.run(["sbatch", "--parsable", *arguments], capture_output=True, text=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(Problem(COMMAND, f"the command sbatch cannot be started: {error}")) from None
    found = _SUBMITTED.fullmatch(done.stdout.strip())
    if done.returncode or found is None:
        message = (done.stderr or done.stdout).strip().split("\n")[0]
        raise InputError(Problem(COMMAND, f"sbatch refuses {arguments[-1]}: {message or f'exit code {done.returncode}'}"))
    return found[1]
