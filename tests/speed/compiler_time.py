"""Runs a compiler and notes its CPU time, in place of `CC`: `python compiler_time.py LOG cc -c a.c -o a.o` (build_rows.py)."""

import json
import os
import sys


def main(log: str, command: list[str]) -> int:
    """The compiler's exit code. One line of JSON is added to the log: its CPU seconds and what it made."""
    _, status, used = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
    made = command[command.index("-o") + 1] if "-o" in command else ""
    line = json.dumps({"made": made, "seconds": used.ru_utime + used.ru_stime}) + "\n"
    with open(log, "a", encoding="utf-8") as file:  # compilers run side by side: a line is written at once
        file.write(line)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
