"""The laws that a trace must keep; each file has the laws of one subject."""
