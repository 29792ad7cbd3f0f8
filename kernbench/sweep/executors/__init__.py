"""Where points are run: a pool of processes, threads of this one, a Dask cluster."""
