"""Schedules fuzzed for races: a program under many legal timings, and what changed between them (`kbsim fuzz`)."""
