"""What torch.compile refuses: code it cannot put into one graph, reentrant checkpoints, a missing compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen


def _tool(seen: Seen) -> Facts | None:
    """Which tool is missing, or that it is there and refused the code."""
    if "triton" in seen.facts:
        check = "python -c 'import torch, triton; print(torch.__version__, triton.__version__)'"
        return {
            **seen.facts,
            "found": "no working triton, which it needs on GPUs",
            "remedy": "Install the triton that this torch asks for (pip show torch lists it; Windows: triton-windows)",
            "check": check,
        }
    if "refused" in seen.facts:
        return {
            **seen.facts,
            "found": "a compiler that failed on the code it generates",
            "remedy": "Read the compiler's own lines below the error: a missing header, library or instruction set",
        }
    return seen.facts


SIGNATURES = (
    Signature(
        id="compile.checkpoint_reentrant",
        words=("checkpoint not implemented for use_reentrant=True",),
        pattern=r"checkpoint not implemented for use_reentrant=True",
        weight=3,
        cause="This version of torch.compile refuses reentrant checkpointing.",
        fix="Use use_reentrant=False under torch.compile.",
        verify="one compiled step",
        rules=("checkpoint-with-reentrant-true", "checkpoint-without-use-reentrant"),
        sources=("torch/_dynamo/variables/higher_order_ops.py, torch 2.4",),
        examples=("torch._dynamo.exc.Unsupported: checkpoint not implemented for use_reentrant=True",),
    ),
    Signature(
        id="compile.backend_toolchain",
        words=(
            "InvalidCxxCompiler",
            "No working C++ compiler",
            "Cannot find a working triton installation",
            "Failed to find C compiler",
            "CppCompileError",
        ),
        pattern=r"InvalidCxxCompiler|No working C\+\+ compiler|(?P<triton>Cannot find a working triton)"
        r"|Failed to find C compiler|(?P<refused>CppCompileError)",
        read=_tool,
        weight=3,
        cause="torch.compile found {found}.",
        fix="{remedy}; or run without torch.compile.",
        runnable=True,
        verify="{check}",
        extra={
            "found": "no working compiler for the code it generates",
            "remedy": "Install g++ (or set CXX to a compiler), and triton for GPUs",
            "check": "${{CXX:-g++}} --version",
        },
        sources=("torch/_inductor/exc.py:88, torch 2.13.0",),
        examples=(
            (
                "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in "
                "torch._inductor.config.cpp.cxx"
            ),
        ),
    ),
    Signature(
        id="compile.graph_break_fullgraph",
        words=(
            "torch._dynamo.exc.Unsupported",
            "Data-dependent branching",
            "torch._dynamo.exc.UserError",
            "Data dependent",
        ),
        pattern=r"torch\._dynamo\.exc\.(?:Unsupported|UserError)(?:: (?P<what>.{1,200}))?|Data-dependent branching",
        weight=1,
        cause="torch.compile(fullgraph=True) met code that it cannot put into one graph: {what}.",
        fix="Remove the graph break at that line (data-dependent branch, print, unsupported call), or drop "
        "fullgraph=True.",
        verify="TORCH_LOGS=graph_breaks on the same command",
        sources=("torch/_dynamo/exc.py, torch 2.13.0",),
        extra={"what": "see the message"},
        examples=("torch._dynamo.exc.Unsupported: Data-dependent branching",),
    ),
)
