"""What `import kernbench as kb` offers beyond the building blocks: one function for each question, and answers to look at."""
