"""What a system decides about its work: which way data travels, and where it is kept."""
