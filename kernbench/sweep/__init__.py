"""Sweeps: one spec, many points, every result kept and none computed twice."""
