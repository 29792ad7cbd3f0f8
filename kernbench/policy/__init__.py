"""The policies of a system: routing of data, and placement of tensors."""
