"""The records of a traced run, their order, and their format as lines."""
