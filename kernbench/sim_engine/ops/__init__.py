"""The records of ops: kind, parameters, ranges, rules."""
