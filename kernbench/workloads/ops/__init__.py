"""Single operations on a machine: planned for the chip, lowered to a command queue, simulated."""
