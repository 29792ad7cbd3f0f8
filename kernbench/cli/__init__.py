"""The `kbsim` command: one file a command; they parse, call and print."""
