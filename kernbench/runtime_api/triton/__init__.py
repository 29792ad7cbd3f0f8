"""Launches of Triton kernels, each on a new machine."""
