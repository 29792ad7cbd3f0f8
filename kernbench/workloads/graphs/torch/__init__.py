"""PyTorch programs: exported, and translated to graphs."""
