"""Graphs of operators, as an ONNX file holds them, lowered to CMDQ programs."""
