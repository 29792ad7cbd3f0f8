"""A Dask cluster on SLURM for `kbsim sweep run --executor dask`: copy it, change the job's lines, and run it on a login node.

    python slurm.py --workers 64 --queue short

It prints the scheduler's address, and ends its jobs when it is interrupted.
"""

from __future__ import annotations

import argparse
import signal

from dask_jobqueue import SLURMCluster


def main() -> None:
    """Start the cluster and wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=16, help="processes in all")
    parser.add_argument("--queue", default=None, help="partition of SLURM")
    parser.add_argument("--walltime", default="02:00:00")
    parser.add_argument("--port", type=int, default=8786)
    chosen = parser.parse_args()
    cluster = SLURMCluster(
        cores=16,  # of a job
        processes=16,  # of a job: one a core, as a simulation has one thread
        memory="64 GB",  # of a job
        queue=chosen.queue,
        walltime=chosen.walltime,
        scheduler_options={"port": chosen.port},
        # PYTHONSAFEPATH: workers begin with `python -m`, which would import what lies in the directory of the job.
        job_script_prologue=["export OPENBLAS_NUM_THREADS=1", "export PYTHONSAFEPATH=1"],
    )
    with cluster:
        cluster.scale(n=chosen.workers)
        print(cluster.scheduler_address, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
