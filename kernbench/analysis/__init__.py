"""Analyses that need several runs of machines, or data of real machines: what-if, probes, replayed NoC traffic."""
