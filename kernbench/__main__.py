"""`python -m kernbench` runs the command `kbsim`, for environments whose scripts are not on the path."""

from kernbench.cli.main import main

if __name__ == "__main__":
    main()
