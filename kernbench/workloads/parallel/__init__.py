"""A model on several PEs: layouts, pipelines of stages, hand-offs between stages, and the search for the fastest layout."""
