"""A model on many PEs: layouts, pipelines of stages, hand-offs between them, and the search for the fastest layout."""
