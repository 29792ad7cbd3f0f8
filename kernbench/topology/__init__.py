"""Where things are and how data travels between them."""
