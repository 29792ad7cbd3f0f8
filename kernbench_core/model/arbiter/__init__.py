"""Arbitration: who is granted a bank where more requesters ask for it than it has ports. A rule a file."""
