"""The suites, one in each file."""
