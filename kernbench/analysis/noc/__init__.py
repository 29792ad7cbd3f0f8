"""Networks of real chips, and recorded traffic on them."""
