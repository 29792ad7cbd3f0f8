"""The algorithms of the package, a module each; `configs/ccl.yaml` lists them."""
