"""`triton.language.extra`."""
