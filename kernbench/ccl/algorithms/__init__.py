"""The algorithms of the package, one module each. The file `configs/ccl.yaml` lists them."""
