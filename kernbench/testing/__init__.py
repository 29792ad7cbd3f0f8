"""Performance tests: baselines of cycles, and the pytest plugin. Nothing here imports the simulator before a test runs it."""
