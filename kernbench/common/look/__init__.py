"""How pages, pictures and the terminal look: the tokens, and what is made from them."""
