"""Exporters to other formats, one in each file."""
