"""The parts of a PE and of the host that run kernels, one a file."""
