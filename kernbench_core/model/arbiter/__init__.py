"""Arbitration: which requests are granted if a bank has more requests than ports. Each rule is in one file."""
