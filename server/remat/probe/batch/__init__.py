"""What a model is given and what its output is judged by: inputs of the right shapes, and a loss."""
