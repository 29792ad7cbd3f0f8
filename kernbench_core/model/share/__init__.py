"""How members of a resource share its bandwidth: membership, and a rule a file."""
