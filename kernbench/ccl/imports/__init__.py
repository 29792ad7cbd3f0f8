"""Algorithms and traces of other tools, run as collectives on our machines."""
