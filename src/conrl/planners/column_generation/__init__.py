"""Column generation: which directions to ask an exact oracle, and how to combine its answers."""
