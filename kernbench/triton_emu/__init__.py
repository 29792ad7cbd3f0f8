"""Kernels: plain Python functions that run against the machine's clock (seed ADR-0020 D3)."""
