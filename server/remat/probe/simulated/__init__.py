"""Steps on tensors without data: what is allocated when, and what an allocator makes of it."""
