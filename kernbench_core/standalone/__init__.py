"""The DMA engine by itself, for tests of its states and for users of a single engine."""
