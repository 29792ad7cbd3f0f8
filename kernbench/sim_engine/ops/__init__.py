"""What the op log says of an op: kind, parameters, ranges, rules."""
