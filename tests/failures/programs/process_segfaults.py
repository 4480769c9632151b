"""A single process crashes in native code; faulthandler prints where."""
# run: python -X faulthandler process_segfaults.py; exit $?
# cause: proc.segfault

import ctypes


def call_extension():
    return ctypes.string_at(0)  # fails here


print("loading", flush=True)
call_extension()
