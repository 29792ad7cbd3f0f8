"""Components from outside the core, in Python or C: the ABI, their jobs, flows and requests."""
