"""One rank's shard has a record without a label; the others only lose that rank."""
# run: torchrun --standalone --nproc-per-node 3 ddp_rank_meets_bad_record.py
# cause: code.user_exception
# rank: 1
# collateral: 0 2
# says: KeyError
# fix-says: 'label'
# fix-edits: "label"

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
shard = [{"text": "a", "label": 0}, {"text": "b"} if rank == 1 else {"text": "b", "label": 1}]
for record in shard:
    label = record["label"]  # broken, fails here
    # fixed: label = record.get("label", 0)
    dist.all_reduce(torch.tensor([float(label)]))
dist.barrier()
dist.destroy_process_group()
