"""The metrics of a trace: what is collected, and what follows from it."""
