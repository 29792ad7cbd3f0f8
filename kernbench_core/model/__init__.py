"""The definition of the model: every rule is in exactly one place, with one file for each subject, in the order of
docs/model."""
