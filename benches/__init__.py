"""Workloads and kernels that come with kernbench, a module each; installed as `kernbench.benches`."""
