"""Machines that come with kernbench; `kernbench.load_config` takes their names."""
