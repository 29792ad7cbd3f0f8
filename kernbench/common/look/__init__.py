"""The look of pages, pictures and the terminal: the tokens, and what is derived from them."""
