"""How members of a resource share its bandwidth: the membership, and one file for each rule."""
