"""Reports of a sweep: its table, its page, and the causes of the time of its points."""
