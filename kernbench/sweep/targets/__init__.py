"""What a sweep runs: programs, models, collectives, benches."""
