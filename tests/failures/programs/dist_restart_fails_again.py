"""The launcher starts the ranks again after a failure, and it fails in the same way."""
# run: torchrun --standalone --nproc-per-node 2 --max-restarts 1 dist_restart_fails_again.py
# cause: code.user_exception
# rank: 1
# fix-says: Bound the index by the length
# fix-edits: len(
# says: IndexError

import os

rank = int(os.environ["RANK"])
shards = [[1.0, 2.0], [1.0]]
for step in range(2):
    shard = shards[rank]
    value = shard[step]  # broken, fails here
    # fixed: value = shard[step % len(shard)]
    print("step", step, "value", value)
