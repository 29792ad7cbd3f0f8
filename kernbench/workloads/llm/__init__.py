"""Whole language models: their steps, shards, runs and reports."""
