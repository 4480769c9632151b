"""The same failure in the words of other versions, devices and libraries."""

from __future__ import annotations

import pytest

from remat.diagnose.diagnose import diagnose

TRACEBACK = 'Traceback (most recent call last):\n  File "/home/dev/fit.py", line 12, in main\n    run()\n'
WORDINGS = (
    (
        "mem.cuda_oom.capacity",
        (
            "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
            " capacity of 15.91 GiB. Of the allocated memory 14.02 GiB is allocated by PyTorch, and "
            "301.00 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release "
            "all unoccupied cached memory."
        ),
    ),
    (
        "mem.cuda_oom.capacity",
        (
            "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total "
            "capacity; 55.00 GiB already allocated; 55.00 GiB current active; 1.50 GiB free; 56.00 "
            "GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
            "max_split_size_mb to avoid fragmentation."
        ),
    ),
    (
        "mem.cuda_oom.library",
        (
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously "
            "reported at some other API call"
        ),
    ),
    (
        "code.user_exception",
        ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle...`"),
    ),
    (
        "cuda.illegal_memory",
        ("RuntimeError: CUDA error: misaligned address"),
    ),
    (
        "code.user_exception",
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two "
            "devices, cuda:0 and cpu! (when checking argument for argument mat1 in method "
            "wrapper_CUDA_addmm)"
        ),
    ),
    (
        "dtype.mismatch",
        ("RuntimeError: mat1 and mat2 must have the same dtype"),
    ),
    (
        "dtype.mismatch",
        ("RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::Half"),
    ),
    (
        "dtype.mismatch",
        ("RuntimeError: Input type (float) and bias type (c10::Half) should be the same"),
    ),
    (
        "dtype.mismatch",
        ("RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'"),
    ),
    (
        "dtype.mismatch",
        (
            "RuntimeError: Index put requires the source and destination dtypes match, got BFloat16 "
            "for the destination and Float for the source."
        ),
    ),
    (
        "autograd.inplace_version",
        (
            "RuntimeError: one of the variables needed for gradient computation has been modified by "
            "an inplace operation: [torch.cuda.HalfTensor []], which is output 0 of AddBackward0, is "
            "at version 2; expected version 1 instead."
        ),
    ),
    (
        "code.user_exception",
        ("RuntimeError: grad can be implicitly created only for scalar outputs"),
    ),
    (
        "code.user_exception",
        (
            "RuntimeError: One of the differentiated Tensors appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior."
        ),
    ),
    (
        "ckpt.num_tensors_mismatch",
        (
            "RuntimeError: torch.utils.checkpoint: trying to save more tensors during recomputation "
            "than during the original forward pass."
        ),
    ),
    (
        "data.worker_killed",
        ("RuntimeError: DataLoader worker (pid 4242) is killed by signal: Aborted. "),
    ),
    (
        "data.fd_limit",
        (
            "RuntimeError: unable to open shared memory object </torch_4242_1> in read-write mode: "
            "Too many open files (24)"
        ),
    ),
    (
        "mem.host_cpu_alloc",
        ("OSError: [Errno 12] Cannot allocate memory"),
    ),
    (
        "mem.host_cpu_alloc",
        ("MemoryError"),
    ),
    (
        "mem.host_cpu_alloc",
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 29.8 GiB for an array with "
            "shape (4000000000,) and data type float64"
        ),
    ),
    (
        "mem.host_cpu_alloc",
        (
            "RuntimeError: [enforce fail at CPUAllocator.cpp:68] . DefaultCPUAllocator: can't "
            "allocate memory: you tried to allocate 1073741824 bytes. Error code 12 (Cannot allocate "
            "memory)"
        ),
    ),
    (
        "state.size_mismatch",
        (
            "RuntimeError: Error(s) in loading state_dict for PeftModelForCausalLM:\n size mismatch "
            "for base_model.model.model.embed_tokens.weight: copying a param with shape "
            "torch.Size([0]) from checkpoint, the shape in current model is torch.Size([32000, "
            "4096])."
        ),
    ),
    (
        "code.user_exception",
        ("KeyError: 'state_dict'"),
    ),
    (
        "state.corrupt_file",
        ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooSmall"),
    ),
    (
        "state.corrupt_file",
        ("RuntimeError: PytorchStreamReader failed reading file data/12: file read failed"),
    ),
    (
        "state.corrupt_file",
        ("_pickle.UnpicklingError: pickle data was truncated"),
    ),
    (
        "state.corrupt_file",
        ("zipfile.BadZipFile: File is not a zip file"),
    ),
    (
        "io.disk_full",
        ("OSError: model.safetensors: [Errno 28] No space left on device"),
    ),
    (
        "hub.unreachable",
        (
            "requests.exceptions.ConnectionError: "
            "(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries "
            'exceeded with url: /x"))'
        ),
    ),
    (
        "hub.unreachable",
        (
            "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate"
            " the file on the Hub and we cannot find the requested files in the local cache."
        ),
    ),
    (
        "env.module_missing",
        (
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the "
            "following error: the package flash_attn seems to be not installed."
        ),
    ),
    (
        "env.module_missing",
        ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"),
    ),
    (
        "env.import_name",
        ("AttributeError: module 'numpy' has no attribute 'float'."),
    ),
    (
        "env.import_name",
        ("AttributeError: module 'torch' has no attribute 'compile'"),
    ),
    (
        "hf.no_loss",
        (
            "ValueError: The model did not return a loss from the inputs, only the following keys: "
            "logits. For reference, the inputs it received are input_ids,attention_mask."
        ),
    ),
    (
        "hf.no_columns",
        (
            "ValueError: No columns in the dataset match the model's forward method signature: "
            "(input_ids). The following columns have been ignored: [text]."
        ),
    ),
    (
        "hf.best_model_strategy",
        (
            "ValueError: --load_best_model_at_end requires the saving steps to be a round multiple of"
            " the evaluation steps, but found 500, which is not a round multiple of 200."
        ),
    ),
    (
        "peft.target_modules",
        (
            "ValueError: Target modules ['query_key_value'] not found in the base model. Please check"
            " the target modules and try again."
        ),
    ),
    (
        "hf.ragged_batch",
        ("ValueError: expected sequence of length 22 at dim 1 (got 18)"),
    ),
    (
        "compile.backend_toolchain",
        ("torch._inductor.exc.InductorError: TritonMissing: Cannot find a working triton installation."),
    ),
    (
        "ambiguous.no_traceback",
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    ),
    (
        "dist.store_unreachable",
        (
            "torch.distributed.DistNetworkError: The client socket has failed to connect to any "
            "network address of (node0, 29500). The client socket has failed to connect to "
            "[node0]:29500 (errno: 111 - Connection refused)."
        ),
    ),
    (
        "code.user_exception",
        (
            "torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, invalid argument, NCCL version "
            "2.20.5\nncclInvalidArgument: Invalid value for an argument.\nLast error:\nInvalid config "
            "blocking attribute value -2147483648"
        ),
    ),
    (
        "code.user_exception",
        (
            "torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, internal error - please report this "
            "issue to the NCCL developers, NCCL version 2.21.5\nncclInternalError: Internal check "
            "failed.\nLast error:\nCuda failure 'initialization error'"
        ),
    ),
    (
        "dist.store_timeout",
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, "
            "for key: store_based_barrier_key:1 (world_size=4, worker_count=2, timeout=0:30:00)"
        ),
    ),
    (
        "code.user_exception",
        ("ValueError: Default process group has not been initialized, please make sure to call init_process_group."),
    ),
    (
        "code.user_exception",
        ("RuntimeError: trying to initialize the default process group twice!"),
    ),
    (
        "ds.batch_size_mismatch",
        (
            "AssertionError: Check batch related parameters. train_batch_size is not equal to "
            "micro_batch_per_gpu * gradient_acc_step * world_size 32 != 2 * 1 * 8"
        ),
    ),
    (
        "code.user_exception",
        ("AssertionError: DeepSpeed backend not set, please initialize it using init_process_group()"),
    ),
    (
        "prec.loss_scale_floor",
        ("FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."),
    ),
    (
        "config.empty_optimizer",
        ("ValueError: optimizer got an empty parameter list"),
    ),
    (
        "index.target",
        ("IndexError: Target -1 is out of bounds."),
    ),
    (
        "config.parse",
        ("yaml.parser.ParserError: while parsing a block mapping"),
    ),
    (
        "code.user_exception",
        (
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method"
        ),
    ),
    (
        "device.meta_tensor",
        ("NotImplementedError: Cannot copy out of meta tensor; no data!"),
    ),
    (
        "device.meta_tensor",
        ("RuntimeError: Tensor.item() cannot be called on meta tensors"),
    ),
    (
        "mem.cuda_oom.capacity",
        (
            "RuntimeError: MPS backend out of memory (MPS allocated: 17.83 GB, other allocations: "
            "122.33 MB, max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool."
        ),
    ),
    (
        "mem.cuda_oom.capacity",
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.63 GiB (GPU 0; "
            "23.69 GiB total capacity; 21.91 GiB already allocated; 565.31 MiB free; 21.97 GiB "
            "reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
            "max_split_size_mb"
        ),
    ),
    (
        "mem.cuda_oom.capacity",
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has"
            " a total capacty of 79.20 GiB of which 113.31 MiB is free. Including non-PyTorch memory,"
            " this process has 79.07 GiB memory in use. Of the allocated memory 76.94 GiB is "
            "allocated by PyTorch, and 103.37 MiB is reserved by PyTorch but unallocated."
        ),
    ),
    (
        "mem.cuda_oom.capacity",
        (
            "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of"
            " memory)\nCurrently allocated     : 5.47 GiB\nRequested               : 30.00 MiB\nDevice "
            "limit            : 6.00 GiB\nFree (according to CUDA): 0 bytes"
        ),
    ),
    (
        "ckpt.no_input_requires_grad",
        ("RuntimeError: none of output has requires_grad=True, this checkpoint() is not necessary"),
    ),
    (
        "autograd.inference_tensor",
        ("RuntimeError: Inplace update to inference tensor outside InferenceMode is not allowed."),
    ),
    (
        "prec.nan_loss",
        ("ValueError: The loss returned in `training_step` is nan."),
    ),
    (
        "hf.renamed_argument",
        ("TypeError: __init__() got an unexpected keyword argument 'evaluation_strategy'"),
    ),
    (
        "data.fd_limit",
        ("RuntimeError: received 0 items of ancdata"),
    ),
    (
        "env.numpy_abi",
        ("RuntimeError: Numpy is not available"),
    ),
    (
        "config.cli_argument",
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: "
            "['--evaluation_strategy', 'steps']"
        ),
    ),
    (
        "ddp.param_mismatch",
        (
            "RuntimeError: [1]: params[0] in this process with sizes [32, 16] appears not to match "
            "sizes of the same param in process 0."
        ),
    ),
    (
        "mem.shm_nccl",
        (
            "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1275, unhandled system error, NCCL "
            "version 2.21.5\nncclSystemError: x\nLast error:\nError while attaching to shared memory "
            "segment /dev/shm/nccl-pZafXL (size 9637888)"
        ),
    ),
    (
        "nccl.wrong_interface",
        (
            "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1275, unhandled system error, NCCL "
            "version 2.21.5\nncclSystemError: x\nLast error:\nsocketPollConnect: Connect to "
            "172.17.0.1<40321> returned 111(Connection refused) errno 115(Operation now in progress)"
        ),
    ),
)


@pytest.mark.parametrize(("kind", "text"), WORDINGS, ids=[f"{kind}: {text[:60]}" for kind, text in WORDINGS])
def test_a_wording_is_known(kind: str, text: str) -> None:
    report = diagnose(f"{TRACEBACK}{text}\n")
    assert report.cause is not None
    assert report.cause.id == kind
    assert report.location is None or report.location.line == 12
    said = report.cause.summary, report.fix.summary if report.fix else "", report.verify or ""
    assert not any("(not shown)" in one for one in said)


OUTSIDE = (
    ("io.file_missing", "python3: can't open file '/workspace/trian.py': [Errno 2] No such file or directory"),
    ("config.cli_argument", "Usage: train [OPTIONS]\nTry 'train --help' for help.\n\nError: No such option: --lrr"),
    (
        "proc.sigkill_unknown",
        "[ERROR] [launch.py:322:sigkill_handler] ['python', 'fit.py'] exits with return code = -9",
    ),
    (
        "ambiguous.no_traceback",
        "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
    ),
    ("ambiguous.no_traceback", "step 3 loss 2.0\ntrainer-1 exited with code 1"),
    ("proc.sigkill_unknown", "step 3 loss 2.0\ntrainer-1 exited with code 137"),
)


@pytest.mark.parametrize(("kind", "text"), OUTSIDE)
def test_what_others_say_of_a_process_is_known(kind: str, text: str) -> None:
    report = diagnose(text)
    assert report.cause is not None
    assert report.cause.id == kind
