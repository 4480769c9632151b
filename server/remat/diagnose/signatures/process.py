"""How processes end: signals, exit codes, schedulers, and logs that show no more than that."""

from __future__ import annotations

from remat.diagnose.report import Missing
from remat.diagnose.signature import Signature

_ELASTIC = "torch/distributed/elastic/multiprocessing/errors/__init__.py:142, torch 2.13.0"

SIGNATURES = (
    Signature(
        id="proc.segfault",
        words=("Fatal Python error: Segmentation fault",),
        pattern=r"Fatal Python error: Segmentation fault",
        cause="{who} died of {how}, a fault in native code.{stack}",
        fix="Follow the native stack: an extension built for another torch, ctypes, a driver; reproduce with it "
        "removed.",
        verify="PYTHONFAULTHANDLER=1 on the same command{dump}",
        asks=(
            Missing(
                "the native stack of the rank(s) that died of {how}, which printed nothing "
                "(PYTHONFAULTHANDLER=1, a core dump)",
                "without it there is no place to look at",
                "PYTHONFAULTHANDLER=1 on the same command{dump}",
            ),
        ),
        sources=(_ELASTIC,),
        extra={
            "who": "The process",
            "how": "SIGSEGV (exit code -11)",
            "dump": "; ulimit -c unlimited; gdb python core",
            "stack": "",
            "settled": "its stack is printed",
        },
        examples=(
            (
                "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f4c (most recent call first):\n  "
                'File "/home/dev/proj/fit.py", line 14 in main'
            ),
        ),
    ),
    Signature(
        id="proc.sigbus",
        words=("Fatal Python error: Bus error",),
        pattern=r"Fatal Python error: Bus error",
        cause="{who} died of SIGBUS itself, and nothing says why: a full /dev/shm, a truncated memory-mapped "
        "file, or hardware.",
        fix="Check /dev/shm and the memory-mapped files (data, mmap checkpoints) it used.",
        verify="df -h /dev/shm; PYTHONFAULTHANDLER=1 on the same command",
        asks=(
            Missing(
                "what the rank accessed when SIGBUS came: /dev/shm usage, memory-mapped files, its stack "
                "(PYTHONFAULTHANDLER=1)",
                "a bus error alone does not say which mapping failed",
                "df -h /dev/shm; PYTHONFAULTHANDLER=1; dmesg -T",
            ),
        ),
        sources=(_ELASTIC,),
        extra={"who": "The process"},
        examples=("Fatal Python error: Bus error\n\nCurrent thread 0x00007f4c (most recent call first):",),
    ),
    Signature(
        id="proc.abort",
        words=(),
        pattern="",
        cause="{who} was aborted (SIGABRT, exit code -6) by C++ code: {what}.",
        fix="Read the what() text and the lines above it.",
        verify="PYTHONFAULTHANDLER=1 TORCH_SHOW_CPP_STACKTRACES=1 on the same command",
        asks=(
            Missing(
                "the stack of the process that aborted (SIGABRT) and the exception's what() text",
                "abort is how any uncaught C++ exception ends",
                "TORCH_SHOW_CPP_STACKTRACES=1 PYTHONFAULTHANDLER=1 on the same command",
            ),
        ),
    ),
    Signature(
        id="proc.exit_no_trace",
        words=(),
        pattern="",
        cause="{who} exited with status {code} and printed nothing that says why; the others only lost it.",
        fix="Look into that rank's own stderr; wrap its main in torch.distributed.elastic's @record so that its "
        "error is kept.",
        verify="rerun with torchrun --log-dir logs --redirects 3 and read that rank's stderr file",
        asks=(
            Missing(
                "why {who} exited with status {code}: it printed nothing (its own stderr file)",
                "an exit status carries no reason",
                "torchrun --log-dir logs --redirects 3 ...; cat logs/*/attempt_0/LOCAL_RANK/stderr.log",
            ),
        ),
        sources=(_ELASTIC,),
    ),
    Signature(
        id="proc.user_interrupt",
        words=("KeyboardInterrupt",),
        pattern=r"^KeyboardInterrupt",
        finished=True,
        cause="The run was stopped by Ctrl+C (KeyboardInterrupt, SIGINT): a person or a tool interrupted it; no "
        "failure.",
        fix="Nothing to fix: it was stopped by SIGINT; resume from the last checkpoint.",
        verify="rerun without interrupting it",
        sources=("Python",),
        examples=(
            (
                'Traceback (most recent call last):\n  File "fit.py", line 6, in <module>\n    '
                "time.sleep(1)\nKeyboardInterrupt"
            ),
        ),
    ),
    Signature(
        id="proc.sigterm_preempt",
        words=(),
        pattern="",
        cause="The run was stopped from outside ({why}); no rank failed before.",
        fix="Resume from the last checkpoint; save on SIGTERM if stops are expected.",
        runnable=True,
        verify="sacct -j $SLURM_JOB_ID -o JobID,State,ExitCode,Elapsed; kubectl get events",
        asks=(
            Missing(
                "who sent SIGTERM (scheduler: scontrol / sacct, Kubernetes events, a person)",
                "the launcher reports that the signal came, not from whom",
                "sacct -j $SLURM_JOB_ID -o State,ExitCode; scontrol show job $SLURM_JOB_ID; kubectl get events "
                "--sort-by=.lastTimestamp",
            ),
        ),
        sources=("torch/distributed/elastic/agent/server/api.py:753, torch 2.13.0", "slurmstepd"),
        examples=(
            ("slurmstepd: error: *** JOB 99120 ON node02 CANCELLED AT 2025-06-01T04:22:09 DUE TO PREEMPTION ***"),
        ),
    ),
    Signature(
        id="proc.sighup",
        words=(),
        pattern="",
        cause="The terminal or the connection that the run was started from closed (the launcher received SIGHUP); no "
        "rank failed before.",
        fix="Start it inside tmux or screen, or with setsid (setsid COMMAND > run.log 2>&1 &), and resume from the "
        "last checkpoint. nohup alone does not protect torchrun: it installs a SIGHUP handler of its own.",
        runnable=True,
        verify="close the terminal a minute after the start: the log still grows (tail -f run.log from another one)",
        sources=(
            "torch/distributed/elastic/agent/server/api.py:753, torch 2.13.0",
            "torch/distributed/elastic/multiprocessing/api.py (start, signals to handle), torch 2.13.0",
        ),
        examples=(
            (
                "WARNING:torch.distributed.elastic.agent.server.api:Received Signals.SIGHUP death signal, shutting "
                "down workers"
            ),
        ),
    ),
    Signature(
        id="proc.time_limit",
        words=(),
        pattern="",
        cause="The scheduler stopped the job at its time limit; no rank failed before.",
        fix="Requeue it and resume from the last checkpoint, or ask for more time (--time); save before the "
        "limit (--signal=B:USR1@120).",
        runnable=True,
        verify="sacct -j $SLURM_JOB_ID -o State,Elapsed,Timelimit",
        sources=("slurmstepd",),
        examples=(
            ("slurmstepd: error: *** JOB 99120 ON node02 CANCELLED AT 2025-06-01T04:22:09 DUE TO TIME LIMIT ***"),
        ),
    ),
    Signature(
        id="proc.node_failure",
        words=(),
        pattern="",
        cause="The scheduler reports that node {node} failed; the ranks elsewhere only lost it.",
        fix="Exclude {node} and requeue the job (sbatch --exclude={node}); report the node.",
        runnable=True,
        verify="sinfo -R; scontrol show node {node}",
        sources=("slurmstepd",),
        examples=("srun: error: Node failure on node14",),
    ),
    Signature(
        id="ambiguous.no_traceback",
        words=(),
        pattern="",
        cause="What failed first is not proven by what was given: {shown}. The text that says why is unknown; "
        "it stands above or elsewhere.",
        fix="Give more of the log: the lines above, or the stderr of the rank.",
        verify="{rerun}",
        extra={
            "rerun": "rerun with torchrun --log-dir logs --redirects 3 --tee 3",
            "elsewhere": "torchrun --log-dir logs --redirects 3; @record error files",
        },
        asks=(
            Missing(
                "{needed}",
                "the launcher's list says who ended and when it noticed, not why",
                "scroll up and select from the first Traceback; {elsewhere}",
            ),
        ),
        sources=(_ELASTIC,),
    ),
    Signature(
        id="ambiguous.concurrent_failures",
        words=(),
        pattern="",
        cause="Ranks {ranks} failed on their own with different errors, and their order is unknown: {errors}.",
        fix="Fix both errors: {errors}.",
        verify="rerun with @record on main, so that each error file carries its time",
        asks=(
            Missing(
                "which of ranks {ranks} failed first: sub-second timestamps (error files via @record, or logger "
                "timestamps)",
                "both failed by themselves within the resolution of the launcher's clock",
                "decorate main with torch.distributed.elastic.multiprocessing.errors.record and compare the "
                "timestamps in error.json",
            ),
        ),
    ),
)
