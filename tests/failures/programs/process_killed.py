"""A single process is killed; the shell says so."""
# run: python process_killed.py; exit $?
# cause: proc.sigkill_unknown
# missing: who

import os
import signal

print("step 1 loss 0.7", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
