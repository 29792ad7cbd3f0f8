"""What a traced run records, the order of records, and the lines that they become."""
