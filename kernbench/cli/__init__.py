"""The `kbsim` command, with one file for each command; the files parse arguments, call the library and print results."""
