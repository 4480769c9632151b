"""What closures given to checkpoint capture, and what is bound anew before backward runs them again."""
