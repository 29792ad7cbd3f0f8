"""The positions of components, and the routes of data between them."""
