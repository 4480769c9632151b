"""Ctrl+C: stopped by a person, which is no failure."""
# run: python interrupted.py
# cause: none

import os
import signal

for step in range(5):
    print("step", step, flush=True)
    if step == 3:
        os.kill(os.getpid(), signal.SIGINT)
