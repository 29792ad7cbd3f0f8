"""The functions of `import kernbench as kb`, one module for each function, and the classes of their results."""
