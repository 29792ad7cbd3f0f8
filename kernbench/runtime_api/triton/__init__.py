"""Launches of Triton kernels on machines of their own."""
