"""Training on many ranks, estimated for one of them: no process is started, and nothing is sent."""
