"""The tables of a run: how they are laid out, saved, checked, restored and reported."""
