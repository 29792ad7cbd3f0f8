"""Triton's own test files on kernbench: `python -m tests.triton_peers CHECKOUT`. See README.md in this folder."""
