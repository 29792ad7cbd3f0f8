"""The components of a PE and of the host that run kernels, one in each file."""
