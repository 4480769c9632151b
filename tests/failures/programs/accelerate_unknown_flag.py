"""accelerate launch passes the script a flag that it does not know."""
# run: accelerate launch --cpu --num_processes 1 --num_machines 1 accelerate_unknown_flag.py --learning-rate 1e-4
# fixed-run: accelerate launch --cpu --num_processes 1 --num_machines 1 accelerate_unknown_flag.py --lr 1e-4
# cause: config.cli_argument
# says: --learning-rate
# fix-says: Correct the flag
# fix-edits: --lr 1e-4

import argparse

from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
arguments = parser.parse_args()
print(Accelerator().device, arguments.lr)
