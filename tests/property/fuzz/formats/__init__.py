"""One module a format: sound files, how they are changed, and the commands that read them."""
