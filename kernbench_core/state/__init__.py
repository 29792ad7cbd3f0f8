"""The tables of a run: their layout, snapshots, checks, restoring and reports."""
