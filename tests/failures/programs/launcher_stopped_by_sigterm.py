"""torchrun is told to stop from outside, as a scheduler does before it takes the node away."""
# run: torchrun --standalone --nproc-per-node 2 launcher_stopped_by_sigterm.py
# cause: proc.sigterm_preempt
# missing: who sent SIGTERM

import os
import signal
import time

import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
print("step 1 loss 2.0", flush=True)
if dist.get_rank() == 0:
    os.kill(os.getppid(), signal.SIGTERM)
time.sleep(30)
