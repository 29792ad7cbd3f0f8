"""Collectives: algorithms as modules of kernels, the groups of ranks that run them, and the measurement of their runs."""
