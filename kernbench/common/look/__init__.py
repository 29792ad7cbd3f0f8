"""The look of pages, pictures and the terminal: the design tokens, and the values that are derived from them."""
