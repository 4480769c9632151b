"""Where the texts that signatures and marks look for are printed, so that a test sees when a library drops one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """
    `says` stands in `file` (`library/path`; `python/` is the standard library) and serves the kinds and marks `of`.

    `until`: the first version of the library that was seen without it.
    """

    file: str
    says: str
    of: tuple[str, ...]
    until: str = ""


_ALLOCATOR = "mem.cuda_oom.capacity mem.cuda_oom.fragmentation mem.cuda_oom.other_process mem.cuda_oom.optimizer_state"
# Seen in torch 2.13.0, transformers 5.24.0, accelerate 1.15.0, peft 0.21.2; CUDA builds' own in torch 2.4.1 and 2.9.1.
_PRINTED = {
    "torch/utils/checkpoint.py": {
        "have different metadata than during the forward pass": "ckpt.metadata_mismatch ckpt.zero3_partitioned_param",
        "A different number of tensors was saved": "ckpt.num_tensors_mismatch",
        "trying to save more tensors during recomputation": "ckpt.num_tensors_mismatch",
        "Unpack is being triggered for a tensor that was already unpacked once": "ckpt.unpack_twice",
        "is incompatible with .grad() or passing an `inputs`": "ckpt.reentrant_grad_inputs",
        "none of output has requires_grad=True, this checkpoint() is not necessary": "ckpt.no_input_requires_grad",
        "None of the inputs have requires_grad=True": "ckpt.no_input_requires_grad no_grad_inputs",
        "the use_reentrant parameter should be passed explicitly": "use_reentrant",
    },
    "torch/lib/libtorch_cpu.so": {
        "does not require grad and does not have a grad_fn": "autograd.element0_no_grad ckpt.no_input_requires_grad",
        "backward through the graph a second time": "autograd.backward_twice",
        "modified by an inplace operation": "autograd.inplace_version",
        "is being used in an in-place operation": "autograd.inplace_leaf",
        "returned nan values in its": "autograd.anomaly_nan",
        "Inference tensors cannot be saved for backward": "autograd.inference_tensor",
        "Inplace update to inference tensor outside": "autograd.inference_tensor",
        "shapes cannot be multiplied": "shape.matmul",
        "Expected size for first two dimensions of batch2": "shape.matmul",
        "size mismatch, got": "shape.matmul",
        "Sizes of tensors must match except": "shape.cat",
        "Tensors must have same number of dimensions": "shape.cat",
        "must have the same dtype": "dtype.mismatch",
        "expected scalar type": "dtype.mismatch",
        "expected m1 and m2 to have the same dtype": "dtype.mismatch",
        "not implemented for '": "dtype.mismatch",
        "Found dtype": "dtype.mismatch",
        "Cannot copy out of meta tensor": "device.meta_tensor",
        "Target ": "index.target",
        "index out of range in self": "index.embedding",
        "stack expects each tensor to be equal size": "data.collate_size",
        "Expected to mark a variable ready only once": "ddp.mark_ready_twice",
        "training graph has changed in this iteration": "ddp.static_graph_changed",
        "Expected to have finished reduction in the prior iteration": "ddp.unused_params",
        "DDP expects same model across all ranks": "ddp.param_mismatch",
        "appears not to match": "ddp.param_mismatch",
        "Detected mismatch between collectives on ranks": "dist.mismatched_collective",
        "Received data size doesn't match expected size": "dist.mismatched_collective",
        "Timed out waiting": "dist.peer_stalled",
        " failed to pass monitoredBarrier in ": "dist.peer_stalled",
        " successfully reached monitoredBarrier": "dist.peer_stalled passed_barrier",
        "Connection closed by peer": "dist.gloo_peer_closed",
        "connectFullMesh failed": "dist.gloo_peer_closed mesh",
        "clients joined": "dist.store_timeout",
        "client socket has": "dist.store_unreachable",
        "recvBytes": "dist.store_lost",
        "waitForInput": "store_socket",
        "EADDRINUSE": "dist.port_in_use",
        "ddress already in use": "dist.port_in_use",
        "PytorchStreamReader failed": "state.corrupt_file",
        "failed finding central directory": "state.corrupt_file",
        "PytorchStreamWriter failed": "io.write_failed",
        "unexpected pos": "io.write_failed",
    },
    "torch/_meta_registrations.py": {
        "must have same reduction dim": "shape.matmul",
    },
    "torch/nn/modules/module.py": {
        "Cannot copy out of meta tensor": "device.meta_tensor",
        "in loading state_dict for": "state.key_prefix state.missing_unexpected_keys",
        "size mismatch for": "state.size_mismatch",
    },
    "torch/optim/optimizer.py": {
        "optimizer got an empty parameter list": "config.empty_optimizer",
        "loaded state dict ": "state.optimizer_group",
    },
    "python/json/decoder.py": {
        "JSONDecodeError": "config.parse",
    },
    "transformers/hf_argparser.py": {
        "arguments are not used by the HfArgumentParser": "config.cli_argument",
    },
    "python/argparse.py": {
        ": error: ": "config.cli_argument usage",
    },
    "torch/_inductor/exc.py": {
        "No working C++ compiler": "compile.backend_toolchain",
        "Cannot find a working triton installation": "compile.backend_toolchain",
    },
    "torch/_dynamo/symbolic_convert.py": {
        "Data-dependent branching": "compile.graph_break_fullgraph",
    },
    "torch/cuda/__init__.py": {
        "Torch not compiled with CUDA enabled": "cuda.not_compiled",
        "CUDA capability sm_": "cuda.no_kernel_image sized_up",
        "supports CUDA capabilities": "cuda.no_kernel_image built_for",
    },
    "torch/lib/libc10_cuda.so": {
        "driver on your system is too old": "cuda.driver_too_old",
        "device-side assert": "cuda.device_assert.unknown cuda.device_assert.index cuda.device_assert.target",
        "out of memory. Tried to allocate": f"{_ALLOCATOR} mem.cuda_oom.eval_accumulation",
        " would exceed allowed memory. (out of memory)": "mem.cuda_oom.capacity",
    },
    "torch/lib/libtorch_cuda.so": {
        "CUBLAS_STATUS_ALLOC_FAILED": "mem.cuda_oom.library",
        "ncclSystemError": "nccl.system_error nccl.system_error_unknown",
        "ncclRemoteError": "nccl.remote_peer_closed",
        "Watchdog caught collective operation timeout": "nccl.timeout timeout",
        "NCCL communicator was aborted": "nccl.timeout",
        "Received a dump signal": "nccl.timeout dump",
        "watchdog got stuck": "nccl.watchdog_stuck stuck",
    },
    "torch/_utils.py": {
        "Caught ": "data.worker_exception",
    },
    "torch/utils/data/dataloader.py": {
        "DataLoader worker": "data.worker_killed",
        "Too many open files": "data.fd_limit",
    },
    "torch/lib/libtorch_python.so": {
        "DataLoader worker": "data.worker_killed",
        "Numpy is not available": "env.numpy_abi",
        "Unexpected bus error encountered in worker": "mem.shm_bus_error worker_bus",
        "insufficient shared memory (shm)": "mem.shm_bus_error shm_short",
        "write(): fd": "io.write_failed",
    },
    "torch/utils/data/_utils/collate.py": {
        "each element in list of batch should be of equal size": "data.collate_size",
    },
    "python/multiprocessing/spawn.py": {
        "has finished its bootstrapping phase": "data.spawn_guard",
    },
    "python/multiprocessing/reduction.py": {
        " items of ancdata": "data.fd_limit",
    },
    "python/pickle.py": {
        "Can't pickle": "data.pickle",
    },
    "torch/distributed/elastic/rendezvous/api.py": {
        "RendezvousTimeoutError": "dist.rendezvous_timeout",
    },
    "accelerate/state.py": {
        "main_process_first": "dist.rank0_busy",
    },
    "huggingface_hub/errors.py": {
        "GatedRepoError": "hub.gated",
        "LocalEntryNotFoundError": "hub.unreachable",
    },
    "transformers/utils/hub.py": {
        "You are trying to access a gated repo": "hub.gated",
        "We couldn't connect to": "hub.unreachable",
    },
    "torch/lib/libc10.so": {
        "DefaultCPUAllocator": "mem.host_cpu_alloc",
    },
    "transformers/training_args.py": {
        "--load_best_model_at_end requires the save and eval strategy to match": "hf.best_model_strategy",
    },
    "transformers/trainer.py": {
        "The model did not return a loss from the inputs": "hf.no_loss",
        "No columns in the dataset match the model's forward method signature": "hf.no_columns",
        "No valid checkpoint found": "state.no_checkpoint",
    },
    "transformers/tokenization_utils_base.py": {
        "Asking to pad but the tokenizer does not have a padding token": "hf.no_pad_token",
        "Unable to create tensor, you should probably activate truncation and/or padding": "hf.ragged_batch",
    },
    "transformers/modeling_layers.py": {
        "Cannot handle batch sizes > 1 if no padding token": "hf.no_pad_token",
    },
    "peft/tuners/tuners_utils.py": {
        "not found in the base model": "peft.target_modules",
    },
    "torch/distributed/fsdp/_flat_param.py": {
        "Must flatten tensors with uniform ": "fsdp.mixed_requires_grad",
    },
    "torch/distributed/tensor/_dispatch.py": {
        "got mixed torch.Tensor and DTensor": "fsdp.mixed_dtensor",
    },
    "accelerate/utils/megatron_lm.py": {
        "found NaN in local forward loss": "prec.nan_loss",
    },
    "torch/amp/grad_scaler.py": {
        "Attempting to unscale FP16 gradients": "prec.unscale_fp16",
        "unscale_() has already been called": "prec.unscale_twice",
        "No inf checks were recorded": "prec.no_inf_checks",
    },
    "torch/serialization.py": {
        "Weights only load failed": "state.weights_only",
        "Invalid magic number": "state.corrupt_file",
    },
    "torch/distributed/elastic/multiprocessing/api.py": {
        "failed (exitcode": "failed",
        "closing signal": "closing",
        "forcefully exiting via": "forced",
        "got signal: ": "got_signal",
    },
    "torch/distributed/elastic/agent/server/api.py": {
        "death signal": "death proc.sigterm_preempt",
        "worker group successfully finished": "group_ended",
    },
    "torch/distributed/elastic/multiprocessing/errors/__init__.py": {
        "Root Cause (first observed failure)": "root ambiguous.no_traceback",
        "Failures:": "others",
        "time      : ": "entry_time",
        "host      : ": "entry_host",
        "(local_rank: ": "entry_rank",
        "exitcode  : ": "entry_code proc.sigkill_unknown",
        "traceback : ": "entry_text",
    },
    "torch/multiprocessing/spawn.py": {
        "terminated with the following": "spawned_failed",
        " terminated with ": "spawned_ended",
        "via signal ": "terminating",
    },
    "torch/distributed/checkpoint/api.py": {
        "CheckpointException ranks:": "dumped",
    },
    "torch/optim/lr_scheduler.py": {
        "`lr_scheduler.step()` before `optimizer.step()`": "scheduler_first",
    },
    "transformers/models/led/modeling_led.py": {
        "use_cache=True` is incompatible with gradient checkpointing": "cache_off",
    },
}
_GONE = (
    Text(
        "torch/utils/checkpoint.py",
        "Checkpointing is not compatible with .grad()",
        ("ckpt.reentrant_grad_inputs",),
        "2.4",
    ),
)
TEXTS = (
    *(Text(file, says, tuple(of.split())) for file, texts in _PRINTED.items() for says, of in texts.items()),
    *_GONE,
)
