"""Jobs of graph nodes."""
