"""One suite a file."""
