"""The metrics of a trace: the sums that are collected, and the figures that are computed from these sums."""
