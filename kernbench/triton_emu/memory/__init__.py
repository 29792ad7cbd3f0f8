"""Loads and stores of kernels in Phase 1: their order, their bytes."""
