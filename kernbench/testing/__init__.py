"""Performance tests: baselines of cycles, and the pytest plugin. The modules import the simulator only when a test runs it."""
