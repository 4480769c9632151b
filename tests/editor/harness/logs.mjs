/** Logs of failed runs, as launchers print them. */

const LOADER = "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py";
/** In the exception's message, which reports quote; the user's name, alice, is there too. */
export const SECRET = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH";
const AUTOGRAD = "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py";

/** Four ranks: on rank 1 a loader's worker ran out of shared memory, the others lost their peer. \`errors\`: a file beside it. */
export function fourRanks(errors = "/tmp/nowhere/error.json") {
  return `\
W1130 07:12:01.100000 4000 torch/distributed/run.py:852] Setting OMP_NUM_THREADS environment variable for each process to be 1
${steps()}
[rank1]: ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).
[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/alice/job/train.py", line 22, in <module>
[rank1]:     loss.backward()
[rank1]:   File "${LOADER}", line 1275, in _try_get_data
[rank1]:     raise RuntimeError(f"DataLoader worker (pid(s) {pids_str}) exited unexpectedly") from e
[rank1]: RuntimeError: DataLoader worker (pid 4127) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit. (HF_TOKEN=${SECRET}, cache /home/alice/.cache)
${[0, 2, 3].map(lostItsPeer).join("\n")}
W1130 07:13:09.300000 4000 torch/distributed/elastic/multiprocessing/api.py:1010] Sending process 4001 closing signal SIGTERM
E1130 07:13:09.400000 4000 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 1) local_rank: 1 (pid: 4002) of binary: /opt/venv/bin/python3
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_07:13:09
  host      : node01
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4002)
  error_file: ${errors}
============================================================
`;
}

function steps() {
  return Array.from(
    { length: 60 },
    (_, step) => `[rank${step % 4}]: step ${step} loss ${(3 - step / 50).toFixed(3)}`,
  ).join("\n");
}

function lostItsPeer(rank) {
  return `\
[rank${rank}]: Traceback (most recent call last):
[rank${rank}]:   File "/home/alice/job/train.py", line 22, in <module>
[rank${rank}]:     loss.backward()
[rank${rank}]:   File "${AUTOGRAD}", line 829, in _engine_run_backward
[rank${rank}]:     return Variable._execution_engine.run_backward(
[rank${rank}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:42421`;
}

/** What a rank's own error file says, as torchrun writes it. */
export const ERROR_FILE = JSON.stringify({
  message: {
    message: "RuntimeError: DataLoader worker (pid 4127) is killed by signal: Bus error.",
    extraInfo: { py_callstack: "Traceback (most recent call last):\n  ...", timestamp: "1796022789" },
  },
});

/** A traceback whose every part tries to be more than text. */
export const HOSTILE = `\
Traceback (most recent call last):
  File "<img src=x onerror=alert(1)>/train.py", line 3, in <module>
    <script>document.body.textContent = "OWNED"</script>
  File "train.py", line 22, in <a href="command:workbench.action.closeWindow">click</a>
    [link](command:workbench.action.files.newUntitledFile) \u001b]8;;command:workbench.action.quit\u0007quit\u001b]8;;\u0007
RuntimeError: CUDA out of memory. <iframe src="https://example.invalid/"></iframe> \u202edetrevni\u202c <b>bold</b> &lt; \u001b[31mred\u001b[0m \`rm -rf ~\` $(touch owned)
`;

/** A traceback with what VS Code makes a link of, that runs a command, wherever it reads links in text. */
export const LINKS = `\
Traceback (most recent call last):
  File "train.py", line 5, in <module>
    main()
torch.cuda.NastyError: [Show details](command:workbench.action.files.newUntitledFile)
`;
