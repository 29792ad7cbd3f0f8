"""Pictures of a topology as SVG."""
