"""How failures look in what people paste: old versions, debuggers, containers, lines written into each other."""

from __future__ import annotations

import pytest

from remat.diagnose.diagnose import diagnose
from remat.diagnose.notices import MARKS
from remat.diagnose.signatures import BARE_WORDS

HEAD = "Traceback (most recent call last):\n"
INSTALLED = "/venv/lib/python3.11/site-packages"


def cause(log: str) -> str | None:
    report = diagnose(log)
    return report.cause.id if report.cause is not None else None


def summary(log: str) -> str:
    report = diagnose(log)
    assert report.cause is not None
    return report.cause.summary


def fix(log: str) -> str:
    report = diagnose(log)
    assert report.fix is not None
    return report.fix.summary


def place(log: str) -> str:
    location = diagnose(log).location
    return f"{location.path}:{location.line}" if location is not None else ""


OUT = "CUDA out of memory. Tried to allocate 3.00 GiB (GPU 0; 11.00 GiB total capacity; 9.90 GiB already allocated; "
OUT += "0.40 GiB free; 10.10 GiB reserved in total by PyTorch)"


def test_an_out_of_memory_message_that_a_program_prints_at_its_end_is_the_failure() -> None:
    assert cause(f"Epoch 0\n{OUT}\n") == "mem.cuda_oom.capacity"


def test_a_program_that_prints_it_and_goes_on_with_a_smaller_batch_did_not_fail() -> None:
    assert not diagnose(f"{OUT}\nusing batch size 8\nepoch 1 done, loss 0.9\n").failed


CONTAINER = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 1 has a total capacity of 79.10 GiB "
    "of which 5.10 GiB is free. Process {pid} has {held} GiB memory in use. Of the allocated memory 68.00 GiB is "
    "allocated by PyTorch, and 2.10 GiB is reserved by PyTorch but unallocated."
)


def test_in_a_container_the_process_itself_is_no_other_process() -> None:
    assert cause(CONTAINER.format(pid=71, held="73.90")) == "mem.cuda_oom.capacity"


@pytest.mark.parametrize("word", ["tensors", "variables"])
def test_a_loss_without_a_graph_in_the_words_of_two_versions(word: str) -> None:
    log = f"RuntimeError: element 0 of {word} does not require grad and does not have a grad_fn"
    assert cause(log) == "autograd.element0_no_grad"


def test_shapes_in_the_words_of_torch_1_0_are_not_attributed() -> None:
    log = (
        "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for pos.weight: copying a param of "
        "torch.Size([40, 8]) from checkpoint, where the shape is torch.Size([900, 8]) in current model."
    )
    assert cause(log) == "state.size_mismatch"
    assert "the wrong way round" in summary(log)


SIZES = "\tsize mismatch for {}: copying a param with shape torch.Size([9, 4]) from checkpoint, the shape in current "
SIZES += "model is torch.Size([7, 4]).\n"
LOADING = "RuntimeError: Error(s) in loading state_dict for Net:\n"


def test_only_token_tables_of_another_size_are_resized() -> None:
    assert "Resize the token embeddings" in fix(LOADING + SIZES.format("model.embed_tokens.weight"))
    both = LOADING + SIZES.format("model.embed_tokens.weight") + SIZES.format("layer1.conv.weight")
    assert "embeddings" not in fix(both)
    assert "1 more of other shapes" in summary(both)


def test_a_damaged_safetensors_file_is_not_tested_as_a_zip_archive() -> None:
    log = f'{HEAD}  File "fit.py", line 3, in <module>\n    load()\n'
    log += "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata"
    report = diagnose(log)
    assert report.cause is not None
    assert report.cause.id == "state.corrupt_file"
    assert "zipfile" not in (report.verify or "")


def test_a_full_disk_explains_the_archive_that_could_not_be_ended() -> None:
    log = (
        f'{HEAD}  File "{INSTALLED}/torch/serialization.py", line 499, in _save\n    write()\n'
        "OSError: [Errno 28] No space left on device\n\n"
        f"During handling of the above exception, another exception occurred:\n\n{HEAD}"
        '  File "/home/dev/fit.py", line 37, in <module>\n    save()\n'
        "RuntimeError: [enforce fail at inline_container.cc:300] . unexpected pos 1280 vs 1170"
    )
    assert cause(log) == "io.disk_full"


def test_ray_kills_before_the_kernel_does() -> None:
    log = (
        f'{HEAD}  File "/home/dev/rollout.py", line 31, in step\n    ray.get(refs)\n'
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.7, ID: 9e) where the task (task ID: 5, name=Env.step, pid=88, memory "
        "used=3.10GB) was running was 60.90GB / 63.20GB (0.963), which exceeds the memory usage threshold of 0.95."
    )
    report = diagnose(log)
    assert report.cause is not None
    assert report.cause.id == "mem.host_oom_kill"
    assert "60.90GB / 63.20GB" in report.cause.summary
    assert "kernel" not in report.cause.summary
    assert "dmesg" not in (report.verify or "")


RENDEZVOUS = (
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed."
)


def _agent(function: str) -> str:
    path = f"{INSTALLED}/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py"
    return f'{HEAD}  File "{path}", line 150, in {function}\n    raise RendezvousConnectionError(\n{RENDEZVOUS}\n'


def test_torchrun_that_never_reached_its_store_says_where_it_looked() -> None:
    socket = (
        "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to 10.1.0.4:2950\n"
    )
    report = diagnose(socket + _agent("_create_tcp_store"))
    assert report.cause is not None
    assert report.cause.id == "dist.store_unreachable"
    assert report.verify == "nc -vz 10.1.0.4 2950"


def test_torchrun_that_lost_its_store_was_connected_before() -> None:
    assert cause(_agent("_call_store")) == "dist.store_lost"


def test_more_processes_than_the_group_has_are_not_absent_ones() -> None:
    log = (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:10:00)"
    )
    report = diagnose(log)
    assert report.cause is not None
    assert report.cause.id == "dist.store_timeout"
    assert "Only" not in report.cause.summary
    assert report.missing == ()


def test_a_port_is_read_across_a_wrapped_line() -> None:
    log = "RuntimeError: The server socket has failed to listen on any local network\naddress. The server socket has "
    log += "failed to bind to [::]:29611 (errno: 98 - Address\nalready in use)."
    assert "29611" in summary(log)


ASSERTED = "{}:247: block: [0,0,0], thread: [7,0,0] Assertion `{}` failed.\n"


def test_a_kernel_on_windows_names_no_function() -> None:
    log = ASSERTED.format("C:/w/b/pytorch/aten/src/ATen/native/cuda/Loss.cu", "t >= 0 && t < n_classes")
    assert cause(log + "RuntimeError: CUDA error: device-side assert triggered") == "cuda.device_assert.target"


def test_assertions_are_the_failure_where_the_error_is_cut_off() -> None:
    log = " 4%|# | 4/99 [00:08<03:10,  2.00s/it]" + ASSERTED.format("Indexing.cu", "srcIndex < srcSelectDimSize")
    assert cause(log) == "cuda.device_assert.index"


def test_a_probability_outside_0_and_1_is_no_label() -> None:
    log = ASSERTED.format("Loss.cu", "input_val >= zero && input_val <= one")
    log += "RuntimeError: CUDA error: device-side assert triggered"
    assert "label" not in summary(log) + fix(log)
    assert "[0, 1]" in summary(log)


def test_an_assertion_of_no_known_kernel_is_quoted_and_not_asked_for() -> None:
    log = ASSERTED.format("MyKernel.cu", "row < rows") + "RuntimeError: CUDA error: device-side assert triggered"
    report = diagnose(log)
    assert report.cause is not None
    assert "row < rows" in report.cause.summary
    assert report.missing == ()


def test_the_launcher_is_heard_where_its_lines_ran_into_one() -> None:
    log = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 4 (pid: 8808) of binary "
        '/usr/bin/python3      Traceback (most recent call last):      File "/usr/bin/torchrun", line 8, in <module>'
    )
    assert cause(log) == "proc.sigkill_unknown"


def test_a_rank_counts_as_failed_where_only_srun_says_so() -> None:
    assert cause("srun: error: node7: tasks 2-3: Exited with exit code 1\n") == "ambiguous.no_traceback"


def test_a_requeued_job_was_stopped_from_outside() -> None:
    log = (
        "slurmstepd: error: *** JOB 77 ON node7 CANCELLED AT 2025-08-12T02:06:12 DUE TO JOB REQUEUE ***\n"
        "srun: error: node7: tasks 2-3: Exited with exit code 1\n"
    )
    assert cause(log) == "proc.sigterm_preempt"


def test_a_debugger_shows_the_innermost_frame_first() -> None:
    log = (
        "Exception has occurred: RuntimeError\nboom\n"
        '  File "/home/dev/fit.py", line 98, in train\n    raise RuntimeError("boom")\n'
        '  File "/home/dev/fit.py", line 140, in <module>\n    train(args)\nRuntimeError: boom\n'
    )
    assert place(log) == "/home/dev/fit.py:98"


@pytest.mark.parametrize(
    "library",
    [
        "/src/pytorch/torch/utils/checkpoint.py",
        "/src/pytorch/torch/_tensor.py",
        "/src/transformers/src/transformers/trainer.py",
        "/opt/conda/bin/nnUNetv2_train",
        "/src/DeepSpeed/deepspeed/runtime/engine.py",
    ],
)
def test_a_library_used_from_its_repository_is_not_the_user_s_code(library: str) -> None:
    log = f'{HEAD}  File "/home/dev/fit.py", line 12, in main\n    run()\n  File "{library}", line 9, in f\n    g()\n'
    assert place(log + "RuntimeError: boom\n") == "/home/dev/fit.py:12"


def test_the_user_s_own_folder_called_torch_is_the_user_s_code() -> None:
    log = f'{HEAD}  File "/home/dev/torch/models/net.py", line 12, in forward\n    run()\nRuntimeError: boom\n'
    assert place(log) == "/home/dev/torch/models/net.py:12"


TABLE = ["WARNING: no metadata file found", "Parameters: 123M trainable", "Iteration: 5", "Timeout: 30", "Error: 0.03"]


@pytest.mark.parametrize("line", TABLE)
def test_a_word_before_a_colon_below_an_indented_line_is_no_exception(line: str) -> None:
    assert not diagnose(f"  num_layers ........ 12\n{line}\n").failed
    assert not diagnose(f"  num_layers ........ 12\n{line}\n").also[1:]


def test_an_exception_below_an_indented_line_is_still_one() -> None:
    assert diagnose("    a2b(text)\nbinascii.Error: bad padding\n").failed


def test_ddp_is_heard_where_two_processes_wrote_into_each_other() -> None:
    log = (
        "untimeError: RuntimeErrorExpected to have finished reduction in the prior iteration before starting a new one."
    )
    assert cause(log) == "ddp.unused_params"


def test_the_trainer_prints_zero_for_a_loss_that_is_not_finite() -> None:
    good = "{'loss': 0.41, 'grad_norm': 0.8, 'epoch': 0.1}\n"
    bad = "{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.2}\n"
    assert cause(good + bad + bad) == "prec.nan_loss"
    assert not diagnose(good + "{'loss': 0.40, 'grad_norm': nan, 'epoch': 0.2}\n" + good).failed


def test_an_epoch_of_the_first_loss_that_is_not_finite_is_told() -> None:
    assert "first at epoch 31" in summary("epoch: 30 loss: 0.2\nepoch: 31 loss: nan\nepoch: 32 loss: nan\n")


def _raised(message: str) -> str:
    return f'{HEAD}  File "/home/dev/fit.py", line 12, in main\n    run()\nRuntimeError: {message}'


def test_the_same_tensor_type_on_two_devices_is_no_difference_of_dtypes() -> None:
    log = _raised("Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same")
    assert cause(log) == "code.user_exception"
    assert "device" in fix(log)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cpu!", "cuda:1"),
        ("The size of tensor a (77) must match the size of tensor b (80) at non-singleton dimension 1", "dimension 1"),
        ("Net.forward() got an unexpected keyword argument 'mask'", "Let Net.forward() take `mask`"),
        ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "names a step, not a reason"),
    ],
)
def test_an_exception_of_no_known_kind_is_answered_in_its_own_terms(message: str, said: str) -> None:
    assert said in fix(_raised(message))


def test_an_exception_that_a_library_raised_is_said_to_be_the_library_s() -> None:
    log = (
        f'{HEAD}  File "/home/dev/fit.py", line 12, in main\n    run()\n'
        f'  File "{INSTALLED}/somelib/core.py", line 7, in go\n    raise ValueError("no")\nValueError: no\n'
    )
    assert "in core.py, called from fit.py:12" in summary(log)


def test_a_dataset_that_did_not_generate_quotes_what_began_it() -> None:
    log = (
        f'{HEAD}  File "{INSTALLED}/datasets/builder.py", line 9, in _prepare_split_single\n    for _ in generator:\n'
        "pyarrow.lib.ArrowInvalid: JSON parse error: Missing a comma in row 3\n\n"
        f"The above exception was the direct cause of the following exception:\n\n{HEAD}"
        '  File "/home/dev/fit.py", line 4, in <module>\n    load_dataset("json")\n'
        "datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset"
    )
    assert cause(log) == "data.dataset_generation"
    assert "Missing a comma in row 3" in summary(log)


def test_anomaly_mode_that_was_on_is_not_asked_for_again() -> None:
    log = (
        "UserWarning: Error detected in MulBackward0. Traceback of forward call that caused the error:\n"
        f'  File "/home/dev/fit.py", line 3, in <module>\n    y = x * x\n{HEAD}'
        '  File "/home/dev/fit.py", line 9, in <module>\n    y.backward()\n'
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [4]] is at version 2; expected version 1 instead."
    )
    report = diagnose(log)
    assert report.fix is not None
    assert "MulBackward0" in report.fix.summary
    assert "set_detect_anomaly" not in report.fix.summary


def test_a_missing_triton_is_no_missing_compiler() -> None:
    log = "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
    assert "triton" in summary(log + "RuntimeError: Cannot find a working triton installation.")


@pytest.mark.parametrize("runtime", ["HIP", "CUDA"])
def test_an_invalid_device_function_is_code_for_another_gpu(runtime: str) -> None:
    log = _raised(f"{runtime} error: invalid device function")
    assert cause(log) == "cuda.no_kernel_image"
    assert ("gfx" in fix(log)) == (runtime == "HIP")


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.CalledProcessError: Command '['python.exe', 'fit.py']' returned non-zero exit status 3221225477.",
        "Process finished with exit code -1073741819 (0xC0000005)",
    ],
)
def test_an_access_violation_on_windows_is_a_fault_in_native_code(line: str) -> None:
    assert cause(line) == "proc.segfault"
    assert "SIGSEGV" not in summary(line)


def test_mp_spawn_of_old_versions_raises_a_plain_exception() -> None:
    log = f'{HEAD}  File "fit.py", line 13, in main\n    mp.spawn(work, nprocs=4)\n'
    report = diagnose(log + "Exception: process 3 terminated with signal SIGKILL\n")
    assert report.cause is not None
    assert report.cause.id == "proc.sigkill_unknown"
    assert report.initiating_rank == 3


def test_a_spawned_process_that_only_left_an_exit_code_failed() -> None:
    log = f'{HEAD}  File "fit.py", line 13, in main\n    mp.spawn(work, nprocs=1)\n'
    log += "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 1\n"
    assert diagnose(log).failed


@pytest.mark.parametrize(
    "message", ["FloatingPointError: Loss became infinite or NaN at iteration=812!", "Loss is nan, stopping training"]
)
def test_a_loop_that_stops_itself_over_a_loss_that_is_not_finite(message: str) -> None:
    assert cause(f"step ok\n{message}\n") == "prec.nan_loss"
    assert ("iteration 812" in summary(f"{message}\n")) == ("812" in message)


def test_what_ray_puts_before_a_line_is_no_part_of_it() -> None:
    log = (
        '(Worker pid=81, ip=10.1.0.3)   File "/home/dev/act.py", line 71, in wake\n'
        "(Worker pid=81, ip=10.1.0.3)     ray.get(futures)\n"
        "(Worker pid=81, ip=10.1.0.3) ValueError: no futures\n"
    )
    assert place(log) == "/home/dev/act.py:71"


def test_an_actor_that_died_says_nothing_of_why() -> None:
    log = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 9094\n"
    report = diagnose(log)
    assert report.cause is not None
    assert report.cause.id == "ambiguous.no_traceback"
    assert report.missing


def test_a_logger_s_message_before_the_header_is_no_part_of_its_prefix() -> None:
    start = "ERROR 04-21 10:43:16 [core.py:390] "
    log = (
        f'{start}Engine hit an exception: {HEAD}{start}  File "/home/dev/fit.py", line 12, in main\n{start}    run()\n'
    )
    assert cause(f"{log}{start}RuntimeError: {OUT}\n") == "mem.cuda_oom.capacity"
    assert place(f"{log}{start}ValueError: no\n") == "/home/dev/fit.py:12"


def test_a_traceback_in_a_string_is_read_as_one() -> None:
    lines = ["Original Traceback (most recent call last):", '  File "/home/dev/data.py", line 67, in collate']
    lines += ["    torch.stack(x)", "RuntimeError: stack expects each tensor to be equal size, but got [2] at entry 0 "]
    lines[-1] += "and [3] at entry 1"
    text = "\\n".join(lines)
    assert cause(
        f"Run x1 errored: RuntimeError('Caught RuntimeError in DataLoader worker process 0.\\n{text}\\n')"
    ) == ("data.collate_size")


def test_a_single_line_may_be_quoted() -> None:
    assert cause("> somelib.errors.ConfigError: `monitor` was not found") == "code.user_exception"


def test_lightning_has_its_own_words_for_unused_parameters() -> None:
    said = "It looks like your LightningModule has parameters that were not used in producing the loss returned by"
    assert cause(_raised(said)) == "ddp.unused_params"


def test_an_allocation_that_failed_in_cpp_ends_in_an_abort() -> None:
    log = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    assert cause(f"{log}run.sh: line 7: 3100 Aborted                 (core dumped) python fit.py\n") == (
        "mem.host_cpu_alloc"
    )


@pytest.mark.parametrize("needle", sorted({*(mark.needle for mark in MARKS), *BARE_WORDS}))
def test_a_text_that_is_looked_for_in_long_logs_has_more_than_digits_in_it(needle: str) -> None:
    """The sieve compares lines without their digits: nothing else must be left of no needle."""
    assert len("".join(letter for letter in needle if not letter.isdigit()).strip()) > 2


def test_numbers_that_rich_broke_into_lines_are_read() -> None:
    text = "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 24.00 GiB total capacity; 22.10 GiB \n"
    report = diagnose(f"{text}already allocated; 0.50 GiB free; 22.90 GiB reserved in total by PyTorch)")
    assert report.cause is not None
    assert "0.50 GiB of 24.00 GiB free; 22.10 GiB allocated" in report.cause.summary
    assert "24.00 GiB" in (report.verify or "")


def test_the_architecture_that_a_warning_names_is_the_one_to_install_for() -> None:
    log = (
        "UserWarning: with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_80 sm_90.\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    )
    assert "has sm_120 (CUDA 12.8" in fix(log)
    assert "sm_XX" not in fix(log)


@pytest.mark.parametrize(
    ("symbol", "of_torch"),
    [("_ZN3c105ErrorC2E", True), ("_ZN2at4_ops5zeros4callE", True), ("cublasLtGetStatusString", False)],
)
def test_only_a_symbol_of_torch_says_that_another_torch_was_built_against(symbol: str, *, of_torch: bool) -> None:
    said = summary(f"ImportError: /venv/lib/ext.so: undefined symbol: {symbol}")
    assert ("another PyTorch" in said) == of_torch


def test_the_package_of_a_name_that_is_gone_is_the_one_that_pip_knows() -> None:
    report = diagnose("ImportError: cannot import name 'key' from 'somelib.core.keys' (/venv/somelib/core/keys.py)")
    assert (report.verify or "").startswith("python -m pip show somelib;")
    assert "AdamW" not in (report.fix.summary if report.fix else "")


def test_a_circular_import_is_not_called_a_renamed_one() -> None:
    log = "ImportError: cannot import name 'Net' from partially initialized module 'nets.core' (most likely due to a "
    log += "circular import) (/home/dev/nets/core.py)"
    assert "removed or renamed" not in summary(log)
    assert "circle" in fix(log)


def test_the_reason_of_a_refused_connection_is_quoted() -> None:
    log = "torch.distributed.DistBackendError: NCCL error, unhandled system error\nLast error:\nsocketStartConnect: "
    assert "(Connection refused)" in summary(f"{log}Connect to 10.0.0.2<4576> failed : Connection refused")


def test_what_to_look_at_belongs_to_the_launcher_that_was_used() -> None:
    report = diagnose("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n")
    assert "torchrun" not in " ".join([report.verify or "", *(one.how for one in report.missing)])


def test_a_notebook_s_arrow_marks_the_line_of_a_frame() -> None:
    log = (
        "ValueError                                Traceback (most recent call last)\n"
        "File c:\\Users\\dev\\cache\\Trainer.py:68, in wrapper(self)\n"
        "     66 if hasattr(self, 'model'):\n"
        "---> [68](file:///C:/Users/dev/cache/Trainer.py:68)     output = f(self)\n\nValueError: no\n"
    )
    assert "Trainer.py:68 (`output = f(self)`)" in summary(log)


def test_a_yaml_error_tells_its_line_and_is_checked_as_yaml() -> None:
    log = (
        "yaml.scanner.ScannerError: while scanning for the next token\nfound character that cannot start any token\n"
        '  in "conf/base.yaml", line 12, column 1'
    )
    assert 'in "conf/base.yaml", line 12' in summary(log)
    assert "yaml.safe_load" in (diagnose(log).verify or "")
    assert "json" not in (diagnose(log).verify or "")


def test_the_banner_of_old_launchers_names_the_rank_and_its_code() -> None:
    log = "Child process 6740 (local_rank 2) FAILED (exitcode -9)\nError msg: Signal 9 (SIGKILL) received by PID 6740\n"
    report = diagnose(log)
    assert report.cause is not None
    assert report.cause.id == "proc.sigkill_unknown"
    assert report.initiating_rank == 2


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing", "131072 bytes"),
        ("No CUDA GPUs are available", "nvidia-smi -L"),
        ("No executable batch size found, reached zero.", "smallest batch"),
    ],
)
def test_what_a_library_means_is_said_in_full(message: str, said: str) -> None:
    assert said in fix(_raised(message))


RECOMPUTED = (
    "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors "
)
RECOMPUTED += "have different metadata than during the forward pass."


def test_a_rank_that_wrote_into_another_s_line_takes_none_of_it() -> None:
    rows = [
        RECOMPUTED,
        "tensor at position 46:",
        "saved metadata: {'shape': torch.Size([65, 8]), 'dtype': torch.float16}",
    ]
    rows.append("recomputed metadata: {'shape': torch.Size([64, 8]),[rank13]: Traceback (most recent call last):")
    assert "shape [65, 8] in forward, [64, 8] when recomputed" in summary("".join(f"[rank11]: {row}\n" for row in rows))


def test_a_list_of_recomputed_tensors_that_is_cut_off_leaves_no_hole() -> None:
    assert "cut off" in summary(RECOMPUTED)
    assert "shape  in" not in summary(RECOMPUTED)


def test_a_list_of_failures_that_the_log_shows_in_full_is_not_asked_for() -> None:
    row = "[0]:\n  time      : 2026-01-02_03:04:05\n  host      : a\n  rank      : 0 (local_rank: 0)\n"
    row += "  exitcode  : 1 (pid: 77)\n  error_file: <N/A>\n"
    root = f"{'-' * 60}\nRoot Cause (first observed failure):\n{row}{'=' * 60}\n"
    whole = f"t.py FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{root}"
    missing = [item.fact for item in diagnose(whole).missing]
    assert any("rank 0's own traceback" in fact for fact in missing)
    assert not any("Failures list" in fact for fact in missing)
    assert any("Failures list" in item.fact for item in diagnose(root).missing)
