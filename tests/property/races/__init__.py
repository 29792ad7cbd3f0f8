"""Programs with a race or lost wait each, and correct ones, for `tests/property/test_races.py`."""
