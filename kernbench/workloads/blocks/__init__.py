"""Layers of any parts, lowered part by part: rows of several sequences go through a block together."""
