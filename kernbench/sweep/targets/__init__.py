"""The targets of a sweep: programs, models, collectives, benches."""
