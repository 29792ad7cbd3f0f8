"""A search for races: a program under many legal timings, and the differences between the results (`kbsim fuzz`)."""
