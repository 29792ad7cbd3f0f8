"""Phase 2: the order of a replay, and the arithmetic of its ops."""
