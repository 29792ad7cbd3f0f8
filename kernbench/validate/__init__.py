"""The simulator against closed forms and published measurements: one suite a module, the figures of others as data."""
