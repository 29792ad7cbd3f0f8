"""ONNX files: read, checked, with shapes and values."""
