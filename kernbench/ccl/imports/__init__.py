"""Reads algorithms and traces of other tools, which then run as collectives on the machines of kernbench."""
