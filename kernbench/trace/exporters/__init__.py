"""Other formats: one a file."""
