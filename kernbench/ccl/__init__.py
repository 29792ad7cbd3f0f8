"""Collectives: algorithms as modules of kernels, the groups that run them, and what their runs come to."""
