"""The first attempt fails, the launcher starts the processes again, and the second one ends well."""
# run: torchrun --standalone --nproc-per-node 2 --max-restarts 1 dist_restart_helps.py
# cause: none

import os

if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    raise OSError("a file system that is not there yet")
print("Training finished")
