"""Makes the enums of types.pxd available in Python."""

COMM_CHANNEL = COMM           # for Python
