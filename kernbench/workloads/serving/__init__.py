"""Serving of language models: requests arrive, a scheduler makes batches, and the machine's cycles give the time of each."""
