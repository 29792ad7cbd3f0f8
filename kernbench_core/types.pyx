"""Names the enums of types.pxd for Python."""
