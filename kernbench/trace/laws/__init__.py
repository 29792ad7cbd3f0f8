"""The laws that a trace keeps, one file a subject."""
