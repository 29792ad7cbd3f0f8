"""The definition: every rule of the model in one place, a file a subject, in the order of docs/model."""
