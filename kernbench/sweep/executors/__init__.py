"""Executors of points: a pool of processes, threads of this process, a Dask cluster."""
