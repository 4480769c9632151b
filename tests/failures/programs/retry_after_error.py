"""A read fails, its traceback is printed, and the second try succeeds: the run ends well."""
# run: python -u retry_after_error.py
# cause: none

import sys
import traceback
from pathlib import Path

for attempt in range(2):
    try:
        print(len(Path("shard.bin").read_bytes()), "bytes")
    except FileNotFoundError:
        traceback.print_exc(file=sys.stdout)
        print("retrying")
        Path("shard.bin").write_bytes(b"1234")
for epoch in range(2):
    print("epoch", epoch, "loss", 1 / (epoch + 1))
