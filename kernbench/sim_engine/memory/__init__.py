"""The contents of memories: address spaces, ranges, gathers."""
