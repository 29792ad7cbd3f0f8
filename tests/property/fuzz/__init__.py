"""A fuzzer of every format that is read: mutated files, each given to `kbsim` in a forked process with limits.

`python -m tests.property.fuzz --help`; docs/fuzzing.md says how to use it.
"""
