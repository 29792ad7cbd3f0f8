"""What a sweep says: its table, its page, and why points took what they took."""
