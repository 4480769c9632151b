"""accelerate gathers tensors whose sizes differ between its two processes."""
# run: ACCELERATE_DEBUG_MODE=1 torchrun --standalone --nproc-per-node 2 accelerate_batches_of_other_shape.py
# cause: dist.mismatched_collective
# fix-says: pad
# missing: which rank

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
lengths = torch.ones(3 + accelerator.process_index, 2)
# fixed: lengths = accelerator.pad_across_processes(lengths)
print(accelerator.gather(lengths).shape)  # fails here
accelerator.end_training()
