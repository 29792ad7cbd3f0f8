"""Two traces side by side, and traces beside hardware counters."""
