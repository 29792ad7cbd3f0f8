"""The functions of `import kernbench as kb`, one for each question, and their answers."""
