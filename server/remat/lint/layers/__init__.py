"""Which layers a model checkpoints and which it leaves out: loops, stacks, flags and check functions."""
