"""Fast paths: each advances a scratchpad exactly as the model does, and declines cases that its licence does not cover."""
