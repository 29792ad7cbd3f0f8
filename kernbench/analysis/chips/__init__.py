"""Measured tables of chips, and constants fitted to them."""
