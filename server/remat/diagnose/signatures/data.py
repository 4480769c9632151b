"""Loading data: workers that raised or died, batches that do not stack, datasets that do not generate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

# What the parent meets first when it fetches a tensor from a worker that is gone.
_FETCHING = re.compile(
    r"data/dataloader\.py:_try_get_data\n(?:.{1,400}\n){0,8}.{0,400}multiprocessing/(?:resource_sharer|reductions)\.py:"
)


def _gone(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    if "lost" not in facts:
        return facts
    if not _FETCHING.search(seen.frames):
        return None
    told = next(iter(seen.notices.get("worker_ended", ())), None)
    return {**facts, "pid": "(its id is not shown)", **(told.facts if told is not None else {})}


_FETCHING_LOG = """\
Traceback (most recent call last):
  File "/home/dev/proj/fit.py", line 32, in main
    for batch in loader:
  File "/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1291, in _try_get_data
    data = self._data_queue.get(timeout=timeout)
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 122, in get
    return _ForkingPickler.loads(res)
  File "/venv/lib/python3.11/site-packages/torch/multiprocessing/reductions.py", line 538, in rebuild_storage_fd
    fd = df.detach()
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 395, in _recv
    chunk = read(handle, remaining)
ConnectionResetError: [Errno 104] Connection reset by peer
"""

SIGNATURES = (
    Signature(
        id="data.worker_exception",
        words=(" in DataLoader worker process",),
        pattern=r"Caught (?P<kind>\w+) in DataLoader worker process (?P<worker>\d+)",
        weight=1,
        cause="The dataset raised {kind} in DataLoader worker {worker}: {inner}.",
        fix="Fix the dataset's __getitem__ (or collate) at that line: the index or record it met.",
        verify="the same loop with num_workers=0",
        sources=("torch/_utils.py:774, torch 2.13.0",),
        examples=(
            (
                'Traceback (most recent call last):\n  File "fit.py", line 8, in <module>\n    for batch in loader: '
                "pass\n"
                "IndexError: Caught IndexError in DataLoader worker process 0.\nOriginal Traceback (most recent "
                "call last):\n"
                '  File "/home/dev/proj/data.py", line 7, in __getitem__\n    return self.rows[i]\nIndexError: list '
                "index out of range\n"
            ),
        ),
        extra={"inner": "see its own traceback"},
    ),
    Signature(
        id="data.map_worker_exception",
        words=('"""', "One of the subprocesses has abruptly died during map"),
        pattern=r"\"{3}\s*\Z|One of the subprocesses has abruptly died during map",
        frames=r"multiprocess/pool\.py|datasets/|multiprocess\\pool\.py",
        weight=1,
        cause="The function given to datasets.map failed in a worker: {inner}.",
        fix="Handle the rows that it cannot process: filter rows whose value is None or malformed before map.",
        verify="ds.map(fn, num_proc=None) on the failing rows",
        sources=("datasets/utils/py_utils.py",),
        extra={"inner": "it ended without a traceback"},
        examples=(
            (
                'multiprocess.pool.RemoteTraceback: \n"""\nTraceback (most recent call last):\n  File '
                '"/venv/lib/python3.11/site-packages/multiprocess/pool.py", line 125, in worker\n    x\n  File '
                '"/home/dev/proj/fit.py", line 4, in tok\n'
                "    return len(ex[\"text\"].split())\nAttributeError: 'NoneType' object has no attribute "
                '\'split\'\n"""\n\n'
                "The above exception was the direct cause of the following exception:\n\nTraceback (most recent "
                "call last):\n"
                '  File "/home/dev/proj/fit.py", line 6, in <module>\n    ds.map(tok, num_proc=2)\n'
                "AttributeError: 'NoneType' object has no attribute 'split'"
            ),
        ),
    ),
    Signature(
        id="data.dataset_generation",
        words=(
            "An error occurred while generating the dataset",
            "DatasetGenerationError",
            "DatasetGenerationCastError",
        ),
        pattern=r"An error occurred while generating the dataset|DatasetGeneration(?:Cast)?Error",
        cause="datasets failed while generating the dataset: a malformed row or file ({inner}).",
        fix="Repair or drop the malformed row or file; give features= if columns differ between files.",
        verify="load_dataset on that one file",
        sources=("datasets/builder.py",),
        extra={"inner": "the first error above says which"},
        examples=("datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset",),
    ),
    Signature(
        id="data.worker_killed",
        words=("DataLoader worker", "ConnectionResetError", "ConnectionRefusedError", "EOFError", "BrokenPipeError"),
        pattern=r"DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) (?:is killed by signal: (?!Bus)"
        r"(?P<signal>\w+)|exited unexpectedly)|^(?P<lost>Connection(?:Reset|Refused)|EOF|BrokenPipe)Error\b",
        read=_gone,
        weight=1,
        cause="DataLoader worker {pid} was ended from outside its Python code ({signal}); who did it is not in "
        "the log.",
        fix="If host memory ran out: fewer workers, smaller prefetch_factor, memory-mapped data. Otherwise "
        "follow the worker's own stderr.",
        verify="dmesg -T | grep -i -E 'oom|killed process'; the same loop with num_workers=0",
        asks=(
            Missing(
                "who killed worker {pid}: dmesg / memory.events",
                "the parent sees only that the worker is gone",
                "dmesg -T | grep {pid}; cat /sys/fs/cgroup/memory.events",
            ),
        ),
        sources=("torch/utils/data/dataloader.py:1305, torch 2.13.0",),
        extra={"signal": "exited unexpectedly"},
        examples=("RuntimeError: DataLoader worker (pid 18231) is killed by signal: Killed. ", _FETCHING_LOG),
    ),
    Signature(
        id="data.collate_size",
        words=("stack expects each tensor to be equal size", "each element in list of batch should be of equal size"),
        pattern=r"each tensor to be equal size, but got (?P<one>\[[\d, ]*\]) at entry \d+ and (?P<other>\[[\d, "
        r"]*\]) at entry (?P<entry>\d+)"
        r"|each element in list of batch should be of equal size",
        cause="Samples of one batch cannot be stacked: they must have equal size, and these are {one} and {other}.",
        fix="Pad (or truncate) to one length in a collate_fn / data collator.",
        verify="one batch: next(iter(loader))",
        sources=("string in libtorch_cpu.so, torch 2.13.0",),
        extra={"one": "of one length", "other": "another"},
        examples=(
            "RuntimeError: stack expects each tensor to be equal size, but got [4] at entry 0 and [5] at entry 1",
        ),
    ),
    Signature(
        id="data.spawn_guard",
        words=("has finished its bootstrapping phase", "bootstrapping phase"),
        pattern=r"before the\s+current process has finished its bootstrapping phase",
        weight=3,
        cause="Worker processes import the script again (spawn), and it starts processes at import: there is no "
        "`if __name__ == "
        '"__main__":` guard.',
        fix='Put the code that runs training under a guard: if __name__ == "__main__":',
        verify="rerun the script",
        sources=("Python multiprocessing/spawn.py",),
        examples=(
            (
                "RuntimeError: \n        An attempt has been made to start a new process before the\n        "
                "current process has finished its "
                "bootstrapping phase."
            ),
        ),
    ),
    Signature(
        id="data.fd_limit",
        words=("Too many open files", " items of ancdata"),
        pattern=r"Too many open files|received \d+ items of ancdata",
        cause="The process ran out of file descriptors: tensors sent between processes keep one open each.",
        fix="Raise the limit (ulimit -n 65536) or use torch.multiprocessing.set_sharing_strategy('file_system').",
        verify="ulimit -n; ls /proc/PID/fd | wc -l",
        sources=("torch/utils/data/dataloader.py:1327, torch 2.13.0",),
        examples=("OSError: [Errno 24] Too many open files",),
    ),
    Signature(
        id="data.pickle",
        words=("Can't pickle", "cannot pickle", "Can't get local object", "can't pickle"),
        pattern=r"(?:[Cc]an't pickle|cannot pickle|Can't get local object) (?P<what>.{0,160})",
        weight=1,
        frames=r"multiprocessing/|multiprocess/|reduction\.py|ForkingPickler|popen_spawn|dill/|multiprocessing\\",
        cause="An object cannot be pickled for worker processes: {what}.",
        fix="Move lambdas and local functions or classes to module level, and open files or connections inside "
        "the worker.",
        verify="pickle.dumps(dataset) in the script, just before the DataLoader is iterated",
        sources=("Python multiprocessing/reduction.py",),
        examples=(
            (
                'Traceback (most recent call last):\n  File "/usr/lib/python3.11/multiprocessing/reduction.py", '
                "line 60, in dump\n"
                "    ForkingPickler(file, protocol).dump(obj)\nAttributeError: Can't pickle local object "
                "'main.<locals>.<lambda>'"
            ),
        ),
    ),
)
