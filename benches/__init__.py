"""Placeholder docstring until written."""
