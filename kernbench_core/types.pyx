"""Names the enums of types.pxd for Python."""

COMM_CHANNEL = COMM           # for Python
