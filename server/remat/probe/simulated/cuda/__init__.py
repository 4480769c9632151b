"""What CUDA does that fakes on the CPU don't: kernels it would choose, their scratch, workspaces."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

import torch

from remat.probe.simulated.cuda.architecture import capability
from remat.probe.simulated.cuda.attention import attention_for
from remat.probe.simulated.cuda.autocast import autocast_as_on_cuda
from remat.probe.simulated.cuda.elementwise import dropout, log_softmax, softmax
from remat.probe.simulated.cuda.host import host_memory
from remat.probe.simulated.cuda.scratch import cuda_scratch, workspaces
from remat.probe.simulated.optimizers import cuda_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.simulated.trace import Trace


@contextlib.contextmanager
def cuda_effects(trace: Trace, gpu: str | None) -> Iterator[None]:
    """Inside it fakes on the CPU take what a GPU of this name would take.

    The kernels stand where torch's dispatcher looks for composite operators, so that every caller meets them,
    recomputation during backward too.
    """
    generation = capability(gpu)
    with contextlib.ExitStack() as world:
        world.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # torch warns of every kernel that is replaced
        library = torch.library.Library("aten", "IMPL")
        world.callback(library._destroy)
        library.impl("scaled_dot_product_attention", attention_for(generation), "AutogradCPU")
        library.impl("dropout", dropout, "AutogradCPU")
        library.impl("softmax.int", softmax, "AutogradCPU")
        library.impl("log_softmax.int", log_softmax, "AutogradCPU")
        world.enter_context(autocast_as_on_cuda())
        world.enter_context(cuda_defaults())
        world.enter_context(host_memory(trace))
        trace.scratch = cuda_scratch
        trace.taken_for_good = workspaces(trace, generation)
        trace.scalars_elsewhere = True
        yield
