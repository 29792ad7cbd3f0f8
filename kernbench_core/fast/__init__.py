"""Fast paths: each advances a scratchpad exactly as the model does, and declines what it is not licensed for."""
