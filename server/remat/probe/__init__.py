"""What a model's training step will need in memory: estimated without a GPU, or measured where one is."""
